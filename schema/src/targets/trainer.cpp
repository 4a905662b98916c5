// The reference trainer reads plan.json itself.

#include <algorithm>

#include "targets/target_entry.hpp"

namespace trimtab {

namespace {

// What is not recomputed keeps more than its input on the device.
void need_hidden_recomputed(const PlanLayers& view, Complaints& complaints) {
  for (std::size_t s = 0; s < view.plan->stages.size(); ++s) {
    for (std::size_t g = 0; g < view.plan->stages[s].segments.size(); ++g) {
      const std::vector<Range>& hidden = view.plan->stages[s].segments[g].switches.offload_hidden;
      if (std::ranges::all_of(hidden, [&view](const Range& range) { return view.recomputed(range); })) continue;
      complaints.add(segment_place(s, g) + ".switches.offload_hidden: its operators must be recomputed too");
    }
  }
}

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
  need_no_switched_operators(view, "offload_hidden", complaints);
  need_hidden_recomputed(view, complaints);
  need_known_knobs(view, {}, complaints);
}

ExportedPlan write(const PlanLayers& view) {
  return {{}, "plan.json", to_json(*view.plan) + "\n"};
}

}  // namespace

TargetEntry trainer_target() {
  TargetEntry entry;
  entry.name = "trainer";
  entry.knobs = {{"all of plan.json",
                  "plan.json itself, without cp, alternate_dimension, interleaving, and switches but "
                  "offload_hidden and offload_optimizer"}};
  entry.limits.pipeline = true;
  entry.limits.tensor_parallel = entry.limits.sharded = entry.limits.recompute = Reach::kLayer;
  entry.limits.levels = {ShardedLevel::kNone, ShardedLevel::kOptimizer, ShardedLevel::kGradients,
                         ShardedLevel::kParameters};
  entry.check = check;
  entry.write = write;
  return entry;
}

}  // namespace trimtab
