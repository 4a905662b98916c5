#pragma once

// A climb from the best plan found so far: single cuts, splits of stages, segments and operators, while that helps.
// What a solver over stages cannot see (the simulated pipeline, paths between two prices of memory) is found here.

#include "search/strategy.hpp"

namespace trimtab::tuner::unified {

struct ClimbOptions {
  int relatives = 20000;  // that are priced at most
  bool operators = true;  // single operators' sharding choice and recompute too
};

void climb(SearchRun& run, const ClimbOptions& options);

}  // namespace trimtab::tuner::unified
