#include "sample_costs.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace trimtab::test {

TemporaryDirectory::TemporaryDirectory() {
  // In memory where that is possible: what is tested survives a kill, not a power cut, and syncing a disk is slow.
  const bool memory = access("/dev/shm", W_OK) == 0;
  const std::filesystem::path parent = memory ? "/dev/shm" : std::filesystem::temp_directory_path();
  path_ = (parent / "trimtab-test-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot create " + path_);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Fingerprint sample_fingerprint(const std::string& cpu) {
  Fingerprint fingerprint;
  fingerprint.device["cpu"] = cpu;
  return fingerprint;
}

CostKey forward_key(const std::string& subject) {
  return {CostKind::kOperatorForward, subject, "float32", 2, 1, "default", 0, 0, ""};
}

Statistics statistics_of(const std::vector<std::int64_t>& values) {
  Statistics statistics;
  for (const std::int64_t value : values) statistics.add(value);
  return statistics;
}

Cost forward_cost(const std::string& subject, const std::vector<std::int64_t>& values) {
  return {forward_key(subject), statistics_of(values)};
}

std::vector<Cost> random_costs(Random& random, std::size_t most) {
  std::vector<Cost> costs;
  const std::uint64_t count = random.below(most + 1);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::vector<std::int64_t> values(1 + random.below(4));
    for (auto& value : values) value = static_cast<std::int64_t>(random.below(std::uint64_t{2} << random.below(50)));
    costs.push_back(forward_cost("op" + std::to_string(random.below(5)), values));
  }
  return costs;
}

CostDatabase open_costs(const std::string& name, OpenMode mode) {
  auto database = CostDatabase::open(name, mode);
  if (!database.ok()) throw std::runtime_error(database.error().message);
  return std::move(database).value();
}

std::optional<Cost> find_cost(const CostDatabase& database, const std::string& fingerprint_hash, const CostKey& key,
                              const std::string& source) {
  std::optional<Cost> found;
  const std::vector<Cost> costs = database.costs(fingerprint_hash, {key.kind}, source).value();
  for (const Cost& cost : costs) {
    if (cost.key != canonical(key)) continue;
    if (found) throw std::runtime_error("the cost " + describe(key) + " is of several sources");
    found = cost;
  }
  return found;
}

std::size_t cost_count(const CostDatabase& database) {
  return database.rows().value().size();
}

std::vector<std::string> contents(const CostDatabase& database) {
  std::vector<std::string> lines;
  const std::vector<CostRow> rows = database.rows().value();
  for (const CostRow& row : rows) {
    lines.push_back(row.fingerprint + " " + row.source + " " + describe(row.cost.key) + " " +
                    row.cost.statistics.encode());
  }
  return lines;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace trimtab::test
