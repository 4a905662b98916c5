#pragma once

// From a synchronized answer to layers that do not synchronize.

#include <functional>

#include "solvers/h3t/problem.hpp"

namespace trimtab::tuner::h3t {

// Changes one layer at a time, synchronization and all other switches, for as long as a whole simulation gets faster
// and fits: a local optimum over the 96 combinations, never worse than `from`. Ends early when `stop` says so.
[[nodiscard]] Solution freed(const Problem& problem, Solution from, const std::function<bool()>& stop);

}  // namespace trimtab::tuner::h3t
