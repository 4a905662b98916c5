#pragma once

// Descent over which operators are recomputed, cuts and devices kept. The choice for memory minimizes recompute time;
// when recompute happens matters too where gradients are synchronized beside it, and an excluded plan needs another
// set.

#include "search/strategy.hpp"

namespace trimtab::tuner {

// Takes the run's best plans, and those that it refused as excluded, through every change of one operator and every
// exchange of two within a stage.
void polish_recompute(SearchRun& run);

}  // namespace trimtab::tuner
