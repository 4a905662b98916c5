#pragma once

// Where `unified` starts under a cost model whose iteration is more than its stages: even plans over uniform groups of
// devices, which is all of its own on clusters of thousands.

#include "search/strategy.hpp"

namespace trimtab::tuner::unified {

// Beyond this many devices there are no solvers, and stages are uniform groups.
inline constexpr std::int32_t kMostDevices = 64;

// Every count of stages that divides the devices, every microbatch and split: cuts balanced by computing time. The most
// promising are priced; on clusters that are too large for the solver the best get splits and cuts stage by stage.
void price_even_plans(SearchRun& run);

}  // namespace trimtab::tuner::unified
