#pragma once

// DeepSpeed's configuration of a plan, for DeepSpeed itself and for the frameworks that hand it over. Pure.

#include <vector>

#include "documents/json_document.hpp"
#include "targets/plan_layers.hpp"

namespace trimtab {

// Replicas under ZeRO. What is recomputed is not looked at.
void need_zero_replicas(const PlanLayers& view, Complaints& complaints);
// Its batch and zero_optimization. REQUIRES: need_zero_replicas() has nothing to say.
[[nodiscard]] OrderedJson zero_configuration(const PlanLayers& view);
// Of zero_optimization.
[[nodiscard]] const std::vector<TargetKnob>& zero_knobs();

}  // namespace trimtab
