#pragma once

// The papers' planners as seeds of `unified`: each keeps its plans in the same run, so that the answer is no worse than
// theirs, and its plans are where the climb starts from.

#include <optional>
#include <span>
#include <string_view>

#include "strategies/strategy.hpp"

namespace trimtab::tuner::unified {

// The planner whose paper's arithmetic the cost model is ("galvatron" for "galvatron:v2"); null for other models.
[[nodiscard]] const Strategy* planner_of(std::string_view cost_model);

// Planners that mean something under a model which is nobody's paper, quick ones first.
[[nodiscard]] std::span<const Strategy> general_planners();

}  // namespace trimtab::tuner::unified
