// The reference trainer reads plan.json itself.

#include <algorithm>

#include "targets/plan_layers.hpp"

namespace trimtab {

namespace {

// What is not recomputed keeps more than its input on the device.
void need_hidden_recomputed(const PlanLayers& view, Complaints& complaints) {
  each_segment(*view.plan, [&](const std::string& place, const Segment& segment) {
    const auto recomputed = [&view](const Range& range) { return view.recomputed(range); };
    const bool all = std::ranges::all_of(segment.switches.offload_hidden, recomputed);
    if (!all) complaints.push_back(place + ".switches.offload_hidden: its operators must be recomputed too");
    return true;
  });
}

// Gathered parameters are released where they are shared out beside the gradients; one replica has them all anyway.
void need_shared_gradients(const PlanLayers& view, Complaints& complaints) {
  each_segment(*view.plan, [&](const std::string& place, const Segment& segment) {
    const bool shares = !segment.switches.partition_parameters.empty() && segment.dp > 1;
    if (shares && segment.sharded != ShardedLevel::kGradients) {
      complaints.push_back(place + ".switches.partition_parameters: needs sharded \"gradients\"");
    }
    return true;
  });
}

// What stays gathered is on the device between its uses.
void need_lazy_partitioned(const PlanLayers& view, Complaints& complaints) {
  each_segment(*view.plan, [&](const std::string& place, const Segment& segment) {
    const auto released = [&](std::int32_t i) {
      return std::ranges::any_of(segment.switches.partition_parameters,
                                 [i](const Range& range) { return range.contains(i); });
    };
    for (const Range& range : segment.switches.lazy_prefetch) {
      std::int32_t i = range.begin;
      while (i < range.end && released(i)) ++i;
      if (i == range.end) continue;
      complaints.push_back(place + ".switches.lazy_prefetch: operator " + std::to_string(i) +
                           " must be in partition_parameters too");
      break;
    }
    return true;
  });
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
    complaints.push_back(place_of(view.operators[i]) + ".tp: must divide what " + op.name + " is split along, " +
                         std::to_string(split_extent(op)) + ", found " + std::to_string(view.operators[i].tp));
    return;
  }
}

// Its states on the host are those of one replica's share.
void need_offload_beside_gradients(const PlanLayers& view, Complaints& complaints) {
  each_segment(*view.plan, [&](const std::string& place, const Segment& segment) {
    if (segment.switches.offload_optimizer && segment.dp > 1 && segment.sharded != ShardedLevel::kGradients) {
      complaints.push_back(place + ".switches.offload_optimizer: needs sharded \"gradients\"");
    }
    return true;
  });
}

// Where ranks share sequences, a part of one goes to the rank that wants that very part.
void need_equal_sharing(const PlanLayers& view, Complaints& complaints) {
  const bool parallel = flag_knob(view, kSequenceKnob, complaints);
  const OperatorSetting& first = view.operators.front();
  if (parallel && first.tp == 1) complaints.push_back("target_knobs.sequence_parallel: needs tp above 1");
  if (!parallel && std::ranges::all_of(view.operators, [](const OperatorSetting& one) { return one.cp == 1; })) return;
  for (const OperatorSetting& one : view.operators) {
    const char* const field = one.tp != first.tp    ? ".tp: must be the first segment's"
                              : one.cp != first.cp  ? ".cp: must be the first segment's"
                              : !one.tp_consecutive ? ".tp_consecutive: must be true"
                                                    : nullptr;
    if (field == nullptr) continue;
    complaints.push_back(place_of(one) + field + " where ranks share sequences");
    break;
  }
  need_no_switches(view, false, complaints);
  if (view.plan->schedule.sub_batches > 1) {
    complaints.push_back("schedule.sub_batches: must be 1 where ranks share sequences");
  }
}

void check(const PlanLayers& view, Complaints& complaints) {
  need_equal_rounds(view, complaints);
  need_equal_sharing(view, complaints);
  need_even_split(view, complaints);
  need_no_alternate_dimension(view, complaints);
  need_hidden_recomputed(view, complaints);
  need_shared_gradients(view, complaints);
  need_offload_beside_gradients(view, complaints);
  need_lazy_partitioned(view, complaints);
  need_known_knobs(view, {kSequenceKnob}, complaints);
}

ExportedPlan write(const PlanLayers& view) {
  return {{}, "plan.json", to_json(*view.plan) + "\n"};
}

}  // namespace

TargetEntry trainer_target() {
  TargetEntry entry;
  entry.name = "trainer";
  entry.knobs = {
      {"all of plan.json",
       "plan.json itself, without alternate_dimension; lazy_prefetch where partition_parameters is; where ranks "
       "share sequences one tp and cp in consecutive order, without switches and sub-batches"},
      {"target_knobs.sequence_parallel", "plan.json itself"}};
  entry.limits.pipeline = true;
  entry.limits.tensor_parallel = entry.limits.sharded = entry.limits.recompute = Reach::kLayer;
  entry.limits.levels = {ShardedLevel::kNone, ShardedLevel::kOptimizer, ShardedLevel::kGradients,
                         ShardedLevel::kParameters};
  entry.check = check;
  entry.write = write;
  return entry;
}

}  // namespace trimtab
