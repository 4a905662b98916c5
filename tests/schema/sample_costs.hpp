#pragma once

// What the tests of the cost database share: a directory of their own, a fingerprint, and costs made from a seed.

#include <optional>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "schema/cost.hpp"
#include "schema/cost_database.hpp"
#include "schema/fingerprint.hpp"

namespace trimtab::test {

// A new directory, removed with everything in it at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] std::string path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

[[nodiscard]] Fingerprint sample_fingerprint(const std::string& cpu = "x");
[[nodiscard]] CostKey forward_key(const std::string& subject);
[[nodiscard]] Statistics statistics_of(const std::vector<std::int64_t>& values);
[[nodiscard]] Cost forward_cost(const std::string& subject, const std::vector<std::int64_t>& values);
// Up to `most` costs of different keys.
[[nodiscard]] std::vector<Cost> random_costs(Random& random, std::size_t most);

// Requires success.
[[nodiscard]] CostDatabase open_costs(const std::string& name, OpenMode mode = OpenMode::kCreate);

// The one cost of a key; of one source where its text is named. Requires that there are not several.
[[nodiscard]] std::optional<Cost> find_cost(const CostDatabase& database, const std::string& fingerprint_hash,
                                            const CostKey& key, const std::string& source = "");
// By fingerprint, key and source.
[[nodiscard]] std::size_t cost_count(const CostDatabase& database);

// Every stored cost as one line of text, sorted: databases are equal when these are.
[[nodiscard]] std::vector<std::string> contents(const CostDatabase& database);

// The whole file, for "nothing was changed".
[[nodiscard]] std::string bytes_of(const std::string& path);
void write_bytes(const std::string& path, const std::string& bytes);

}  // namespace trimtab::test
