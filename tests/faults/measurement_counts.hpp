#pragma once

// How often each measurement of a simulated run counts in a cost database, by subject.

#include <cstdint>
#include <map>
#include <string>

#include "../schema/sample_costs.hpp"
#include "seeded_runs.hpp"

namespace trimtab::test {

inline std::map<std::string, std::uint64_t> measurement_counts(const CostDatabase& database) {
  const auto costs = database.costs(hash(sample_fingerprint()));
  expect(costs.ok(), "costs can be read");
  std::map<std::string, std::uint64_t> counts;
  for (const Cost& cost : *costs) counts[cost.key.subject] = cost.statistics.count();
  return counts;
}

}  // namespace trimtab::test
