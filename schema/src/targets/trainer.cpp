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

// Gathered parameters are released where they are shared out beside the gradients; one replica has them all anyway.
void need_shared_gradients(const PlanLayers& view, Complaints& complaints) {
  for (std::size_t s = 0; s < view.plan->stages.size(); ++s) {
    for (std::size_t g = 0; g < view.plan->stages[s].segments.size(); ++g) {
      const Segment& segment = view.plan->stages[s].segments[g];
      if (segment.switches.partition_parameters.empty() || segment.dp == 1) continue;
      if (segment.sharded == ShardedLevel::kGradients) continue;
      complaints.add(segment_place(s, g) + ".switches.partition_parameters: needs sharded \"gradients\"");
    }
  }
}

// What stays gathered is on the device between its uses.
void need_lazy_partitioned(const PlanLayers& view, Complaints& complaints) {
  for (std::size_t s = 0; s < view.plan->stages.size(); ++s) {
    for (std::size_t g = 0; g < view.plan->stages[s].segments.size(); ++g) {
      const Switches& switches = view.plan->stages[s].segments[g].switches;
      const auto released = [&switches](std::int32_t i) {
        return std::ranges::any_of(switches.partition_parameters,
                                   [i](const Range& range) { return range.contains(i); });
      };
      for (const Range& range : switches.lazy_prefetch) {
        std::int32_t i = range.begin;
        while (i < range.end && released(i)) ++i;
        if (i == range.end) continue;
        complaints.add(segment_place(s, g) + ".switches.lazy_prefetch: operator " + std::to_string(i) +
                       " must be in partition_parameters too");
        break;
      }
    }
  }
}

// How many equal parts its operators have at most, as model.json's shapes tell; 0 = not told.
std::int64_t split_extent(const Operator& op) {
  const auto size = [&op](const std::string& name) {
    const auto found = op.shape.find(name);
    return found == op.shape.end() ? 0 : found->second;
  };
  if (op.kind == "attention") return size("heads");
  if (op.kind == "feedforward") return 4 * size("hidden");
  if (op.kind == "embedding" || op.kind == "head") return size("vocabulary");
  return 0;
}

void need_even_split(const PlanLayers& view, Complaints& complaints) {
  for (std::size_t i = 0; i < view.operators.size(); ++i) {
    const Operator& op = view.model->operators[i];
    if (split_extent(op) % view.operators[i].tp == 0) continue;
    complaints.add(place_of(view.operators[i]) + ".tp: must divide what " + op.name + " is split along, " +
                   std::to_string(split_extent(op)) + ", found " + std::to_string(view.operators[i].tp));
    return;
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
  need_even_split(view, complaints);
  need_no_alternate_dimension(view, complaints);
  need_hidden_recomputed(view, complaints);
  need_shared_gradients(view, complaints);
  need_lazy_partitioned(view, complaints);
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
                  "plan.json itself, without cp, alternate_dimension and interleaving; lazy_prefetch where "
                  "partition_parameters is"}};
  entry.limits.pipeline = true;
  entry.limits.tensor_parallel = entry.limits.sharded = entry.limits.recompute = Reach::kLayer;
  entry.limits.levels = {ShardedLevel::kNone, ShardedLevel::kOptimizer, ShardedLevel::kGradients,
                         ShardedLevel::kParameters};
  entry.check = check;
  entry.write = write;
  return entry;
}

}  // namespace trimtab
