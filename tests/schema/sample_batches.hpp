#pragma once

// Batches made from a seed, and what they must add up to wherever and however often they are stored and merged.

#include <string>
#include <vector>

#include "base/random.hpp"
#include "schema/cost_database.hpp"

namespace trimtab::test {

struct Batch {
  BatchId id;
  std::string cpu;
  std::string source;
  std::vector<Cost> costs;
};

// Of several origins, some of them with gaps in their numbers, most from 1 on without one.
[[nodiscard]] std::vector<Batch> random_batches(Random& random);
// Requires success; true when it was new.
bool store(CostDatabase& database, const Batch& batch);
// What contents() of a database with all of them gives, by the statistics alone.
[[nodiscard]] std::vector<std::string> expected_contents(const std::vector<Batch>& batches);

}  // namespace trimtab::test
