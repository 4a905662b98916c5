// The reference trainer reads plan.json itself.

#include "targets/target_entry.hpp"

namespace trimtab {

namespace {

void check(const PlanLayers& view, Complaints& complaints) {
  if (view.plan->schedule.kind == ScheduleKind::kInterleaved) {
    complaints.add("schedule.kind: must be \"1f1b\" or \"gpipe\", found \"interleaved\"");
  }
  for (const OperatorSetting& one : view.operators) {
    if (one.cp == 1) continue;
    complaints.add(place_of(one) + ".cp: must be 1, found " + std::to_string(one.cp));
    break;
  }
  need_no_alternate_dimension(view, complaints);
  need_no_switches(view, false, complaints);
  need_known_knobs(view, {}, complaints);
}

ExportedPlan write(const PlanLayers& view) {
  return {{}, "plan.json", to_json(*view.plan) + "\n"};
}

}  // namespace

TargetEntry trainer_target() {
  TargetEntry entry;
  entry.name = "trainer";
  entry.knobs = {{"all of plan.json", "plan.json itself, without cp, alternate_dimension, switches and interleaving"}};
  entry.limits.pipeline = true;
  entry.limits.tensor_parallel = entry.limits.sharded = entry.limits.recompute = Reach::kLayer;
  entry.limits.levels = {ShardedLevel::kNone, ShardedLevel::kOptimizer, ShardedLevel::kGradients,
                         ShardedLevel::kParameters};
  entry.check = check;
  entry.write = write;
  return entry;
}

}  // namespace trimtab
