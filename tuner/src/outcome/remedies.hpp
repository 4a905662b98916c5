#pragma once

// Which smallest changes would let some plan fit: memory, devices, knobs. Each is found by searching the changed
// problem, so what is said to fit does.

#include <string>

#include "search/strategy.hpp"

namespace trimtab::tuner {

// "3 stages on 1 + 1 + 2 devices, microbatch 4"
[[nodiscard]] std::string shape_text(const Candidate& candidate);

// One sentence for each kind of change that helps, "; " before each; empty where none was found. REQUIRES: the run has
// found no plan that fits, and has a closest candidate.
[[nodiscard]] std::string remedies(SearchRun& run);

}  // namespace trimtab::tuner
