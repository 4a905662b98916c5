// torch.distributed.pipelining reads no file. This one has its words and is read by
// client/python/trimtab/pipelining.py. What is refused is what its own code refuses: schedules.py and stage.py of
// PyTorch 2.13.

#include "targets/pipelining/pipelining.hpp"

#include <algorithm>

#include "documents/json_document.hpp"

namespace trimtab {

void need_torch_pipeline(const PlanLayers& view, Complaints& complaints) {
  need_equal_rounds(view, complaints);
  const Plan& plan = *view.plan;
  if (std::ranges::count(view.layers_by_stage(), 0) > 0) complaints.push_back("stages: each needs a layer");
  const std::string found = ", found " + std::to_string(plan.microbatches());
  const std::int32_t groups = pipeline_groups(plan);
  if (plan.schedule.kind == ScheduleKind::k1F1B && plan.microbatches() < std::ssize(plan.stages)) {
    complaints.push_back("microbatch: PyTorch's 1F1B needs as many microbatches as stages, " +
                         std::to_string(plan.stages.size()) + found);
  }
  if (plan.schedule.kind == ScheduleKind::kInterleaved && plan.microbatches() % groups != 0) {
    complaints.push_back("microbatch: PyTorch's Interleaved1F1B runs microbatches in rounds of its " +
                         std::to_string(groups) + " ranks, so it needs a multiple of these" + found);
  }
}

std::string_view torch_schedule(ScheduleKind kind) {
  if (kind == ScheduleKind::kGPipe) return "GPipe";
  return kind == ScheduleKind::kInterleaved ? "Interleaved1F1B" : "1F1B";
}

namespace {

void check(const PlanLayers& view, Complaints& complaints) {
  need_devices_in_order(view, view.plan->schedule.kind == ScheduleKind::kInterleaved, complaints);
  need_equal_stages(view, complaints);
  need_cuts_between_layers(view, complaints);
  need_one_split(view, complaints);
  need_sharding_over_all(view, complaints);
  need_no_tensor_parallel(view, complaints);
  need_whole_microbatches(view, complaints);
  need_blocking_transfers(view, complaints);
  need_no_switches(view, false, complaints);
  need_whole_layers_recomputed(view, complaints);
  need_known_knobs(view, {}, complaints);
  need_torch_pipeline(view, complaints);
  const OperatorSetting& first = view.operators.front();
  if (first.sharded == ShardedLevel::kNone) return;
  complaints.push_back(place_of(first) + ".sharded: must be none; what a stage shards is in the script");
}

ExportedPlan write(const PlanLayers& view) {
  const Plan& plan = *view.plan;
  const std::int32_t dp = view.operators.front().dp;
  const std::int32_t groups = pipeline_groups(plan);
  OrderedJson splits = OrderedJson::array();
  std::int32_t layer = 0;
  for (const std::int32_t count : view.layers_by_stage()) {
    if (layer > 0) splits.push_back(layer);
    layer += count;
  }
  const OrderedJson json{{"schema", kPipeliningSchema},
                         {"schedule", torch_schedule(plan.schedule.kind)},
                         {"n_microbatches", plan.microbatches()},
                         {"world_size", groups * dp},
                         {"group_size", groups},
                         {"global_batch", plan.global_batch},
                         {"batch_size", plan.global_batch / dp},
                         {"layers", layer},
                         {"split_layers", std::move(splits)},
                         {"checkpoint_layers", view.recomputed_layers()}};
  return {{}, "pipelining.json", json.dump(2) + "\n"};
}

}  // namespace

TargetEntry pipelining_target() {
  TargetEntry entry;
  entry.name = "pipelining";
  entry.knobs = {
      {"global_batch", "global_batch: batch_size, which one step() of a pipeline takes, times replicas"},
      {"microbatch", "n_microbatches, which the schedule cuts batch_size into"},
      {"stages",
       "group_size ranks of a pipeline, split_layers: SplitPoint.BEGINNING of these layers; equal counts of "
       "devices in order, cuts between layers, a layer in each"},
      {"schedule.kind", "schedule: 1f1b Schedule1F1B, gpipe ScheduleGPipe, interleaved ScheduleInterleaved1F1B"},
      {"segments.dp", "world_size / group_size: pipelines that train alike"},
      {"segments.recompute", "checkpoint_layers: whole layers, under torch.utils.checkpoint"}};
  TargetLimits& limits = entry.limits;
  limits.pipeline = limits.full_pipeline = limits.interleaved = true;
  limits.recompute = Reach::kLayer;
  entry.check = check;
  entry.write = write;
  return entry;
}

}  // namespace trimtab
