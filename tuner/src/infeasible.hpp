#pragma once

// Why no plan was found, in words: nothing fits, or no plan uses every device.

#include <string>

#include "strategies/strategy.hpp"

namespace trimtab::tuner {

// The plan of the space that is least over its memory, which stage is over, by how much, and which smallest
// changes would make it fit (remedies.hpp).
[[nodiscard]] std::string explain_infeasible(SearchRun& run);

}  // namespace trimtab::tuner
