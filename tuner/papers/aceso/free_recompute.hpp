#pragma once

// What to recompute where a plan may choose freely: as little time as makes the stage fit. Pure functions.

#include "papers/aceso/stage_parts.hpp"

namespace trimtab::tuner::aceso {

// Recomputes what frees most memory for its time until the stage fits: runs of operators by their cost for one of
// memory (a Lagrangian search over the price of memory), then the runs that turn out not to be needed are kept again.
// All that frees memory where nothing makes it fit.
void choose_recompute(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits,
                      const Place& place, std::vector<std::uint8_t>& recompute);

// Recomputes `count` more operators, those of the largest activation for their time first.
void recompute_further(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits,
                       std::int32_t count, std::vector<std::uint8_t>& recompute);

}  // namespace trimtab::tuner::aceso
