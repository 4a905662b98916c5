#pragma once

// Whether a space has so few plans that all of them can be priced. Pure.

#include "plan/plan_space.hpp"
#include "schema/model.hpp"

namespace trimtab::tuner::unified {

// Counts the ways to cut the model, to give out the devices and to split the operators, over all microbatches, up to
// `most`; sets of recomputed operators come on top, for models of few operators.
[[nodiscard]] bool is_small(const Model& model, const PlanSpace& space, double most);

}  // namespace trimtab::tuner::unified
