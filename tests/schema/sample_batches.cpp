#include "sample_batches.hpp"

#include <map>
#include <stdexcept>
#include <tuple>

#include "sample_costs.hpp"

namespace trimtab::test {

std::vector<Batch> random_batches(Random& random) {
  std::vector<Batch> batches;
  for (const char* origin : {"a", "b", "c"}) {
    const bool gaps = random.below(3) == 0;
    const std::uint64_t count = random.below(200);
    std::uint64_t number = random.below(2);
    for (std::uint64_t i = 0; i < count; ++i) {
      batches.push_back({{origin, number},
                         random.below(4) == 0 ? "x" : "y",
                         random.below(2) == 0 ? "active" : "passive",
                         random_costs(random, 2)});
      number += gaps ? 1 + random.below(3) : 1;
    }
  }
  return batches;
}

bool store(CostDatabase& database, const Batch& batch) {
  const auto added = database.add_batch(batch.id, sample_fingerprint(batch.cpu), batch.source, batch.costs);
  if (!added.ok()) throw std::runtime_error(added.error().message);
  return *added;
}

std::vector<std::string> expected_contents(const std::vector<Batch>& batches) {
  std::map<std::tuple<std::string, std::string, CostKey>, Statistics> sums;
  for (const Batch& batch : batches) {
    for (const Cost& cost : batch.costs) {
      sums[{hash(sample_fingerprint(batch.cpu)), batch.source, cost.key}].merge(cost.statistics);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [place, statistics] : sums) {
    const auto& [fingerprint, source, key] = place;
    lines.push_back(fingerprint + " " + source + " " + describe(key) + " " + statistics.encode());
  }
  return lines;
}

}  // namespace trimtab::test
