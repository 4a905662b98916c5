#pragma once

// Splits and cuts that suit each other, for devices that are given.

#include "search/strategy.hpp"

namespace trimtab::tuner {

// Every stage gets the split with the best price, then cuts are balanced, in turn until nothing gets better. Never
// worse than the given candidate.
[[nodiscard]] Scored arranged(SearchRun& run, const Scored& from);

}  // namespace trimtab::tuner
