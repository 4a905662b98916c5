#pragma once

// Galvatron-BMW's Algorithm 2 over any cost model that prices stages: one strategy for each stage, the pipeline cut
// from memory-balanced to time-balanced. What is recomputed follows the cost model's own choice.

#include "search/strategy.hpp"

namespace trimtab::tuner::galvatron {

StrategyEnd search_stagewise(SearchRun& run);

}  // namespace trimtab::tuner::galvatron
