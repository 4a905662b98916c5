#pragma once

// A plan's stages by the published arithmetic. Pure functions.

#include <string>
#include <vector>

#include "papers/aceso/stage_parts.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner::aceso {

[[nodiscard]] std::vector<StageParts> plan_parts(const Tables& tables, const Plan& plan);

// Operators of the plan that were not measured as it splits them, by name.
[[nodiscard]] std::vector<std::string> unmeasured(const Tables& tables, const Model& model, const Plan& plan);

}  // namespace trimtab::tuner::aceso
