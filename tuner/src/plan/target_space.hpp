#pragma once

// A space restricted to what a target honours (schema/target.hpp). What holds of a whole plan (one split for the job,
// recompute of the first layers) no space can say: strategy `target` makes such plans alone.

#include <string>

#include "plan/plan_space.hpp"

namespace trimtab::tuner {

// Fails on an unknown target, and where the model has no equal layers that the target could count.
[[nodiscard]] Status restrict_to_target(const std::string& target, const Model& model, PlanSpace& space);

}  // namespace trimtab::tuner
