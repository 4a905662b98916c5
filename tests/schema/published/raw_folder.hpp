#pragma once

// A directory in which a test builds the files of somebody's profiler, and then damages them.

#include <optional>
#include <string>
#include <vector>

#include "../sample_costs.hpp"
#include "schema/published.hpp"

namespace trimtab::test {

class RawFolder {
 public:
  // A subdirectory of its own, "profiled-time-mine".
  explicit RawFolder(const std::string& name);
  [[nodiscard]] const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const;
  [[nodiscard]] std::string read(const std::string& name) const;
  // Replaces the first occurrence, which must exist.
  void replace(const std::string& name, const std::string& what, const std::string& by) const;
  void remove(const std::string& name) const;

 private:
  TemporaryDirectory directory_;
  std::string path_;
};

// Reads what must be readable.
[[nodiscard]] Published imported(const std::string& format, const std::vector<std::string>& directories,
                                 const ProfileSupplement& supplement = {});
// Must be refused with a message that holds all these words.
void refused(const std::string& format, const std::vector<std::string>& directories,
             const std::vector<std::string>& words, const ProfileSupplement& supplement = {});

// Of the first profile that has the key.
[[nodiscard]] std::optional<double> value_of(const Published& published, const CostKey& key);
// One of the remarks holds these words.
[[nodiscard]] bool remarked(const Published& published, const std::string& words);

[[nodiscard]] const Model* model_called(const Published& published, const std::string& file);
[[nodiscard]] const Cluster* cluster_called(const Published& published, const std::string& file);

}  // namespace trimtab::test
