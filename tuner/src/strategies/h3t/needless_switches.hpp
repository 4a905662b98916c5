#pragma once

#include <functional>

#include "problem.hpp"

namespace trimtab::tuner::h3t {

// The simulator hides what is copied beside computation; a real link is not free. Turns off, layer after layer, the
// switches that copy, gather or compute again without making the step any faster, where memory allows: the same time,
// or less. Each try is a whole simulation. Ends early when `stop` says so.
[[nodiscard]] Solution without_needless_switches(const Problem& problem, Solution from,
                                                 const std::function<bool()>& stop);

}  // namespace trimtab::tuner::h3t
