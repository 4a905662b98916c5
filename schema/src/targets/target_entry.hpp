#pragma once

// What target.cpp's table holds for each target; a file of its own each.

#include "targets/plan_layers.hpp"

namespace trimtab {

struct TargetEntry {
  std::string_view name;
  std::vector<TargetKnob> knobs;
  TargetLimits limits;
  void (*check)(const PlanLayers& view, Complaints& complaints);
  ExportedPlan (*write)(const PlanLayers& view);  // REQUIRES: check() has nothing to say
};

[[nodiscard]] TargetEntry trainer_target();
[[nodiscard]] TargetEntry megatron_target();
[[nodiscard]] TargetEntry deepspeed_target();
[[nodiscard]] TargetEntry galvatron_target();
[[nodiscard]] TargetEntry ddp_target();
[[nodiscard]] TargetEntry fsdp_target();

}  // namespace trimtab
