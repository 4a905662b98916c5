#pragma once

// Why no plan was found, in words: nothing fits, or no plan uses every device.

#include <string>

#include "strategies/strategy.hpp"

namespace trimtab::tuner {

// The plan of the space that is least over its memory, which stage is over, by how much, and what would make it fit.
[[nodiscard]] std::string explain_infeasible(const CostModel& cost_model, SearchRun& run);

}  // namespace trimtab::tuner
