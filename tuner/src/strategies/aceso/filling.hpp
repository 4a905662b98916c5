#pragma once

// Cuts by a goal: every stage in turn gets as many operators as a time and its memory allow (Aceso, section 4.1, with
// the goal tightened until it cannot be met). Knows recompute and communication, which balanced sums of computing do
// not.

#include "search/strategy.hpp"

namespace trimtab::tuner {

// Never worse than the given candidate, which comes back where its splits are mixed.
[[nodiscard]] Scored filled(SearchRun& run, const Scored& from);

}  // namespace trimtab::tuner
