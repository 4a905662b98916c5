// DeepSpeed: the configuration file of --deepspeed_config (deepspeed/runtime/config.py, runtime/zero/config.py).

#include "documents/json_document.hpp"
#include "targets/plan_layers.hpp"

namespace trimtab {

namespace {

void check_recompute(const PlanLayers& view, Complaints& complaints) {
  for (const OperatorSetting& one : view.operators) {
    if (!one.recompute) continue;
    complaints.push_back(
        place_of(one) +
        ".recompute: must be empty; what is recomputed is in the model's code, which no configuration changes");
    return;
  }
}

void check(const PlanLayers& view, Complaints& complaints) {
  need_one_stage(view, complaints);
  need_devices_in_order(view, false, complaints);
  need_one_split(view, complaints);
  need_no_tensor_parallel(view, complaints);
  need_whole_microbatches(view, complaints);
  if (view.plan->schedule.kind != ScheduleKind::k1F1B) complaints.push_back("schedule.kind: must be \"1f1b\"");
  need_no_switches(view, true, complaints);
  check_recompute(view, complaints);
  need_known_knobs(view, {kBucketKnob}, complaints);
  const OperatorSetting& first = view.operators.front();
  const bool sharded = first.sharded != ShardedLevel::kNone;
  need_sharding_over_all(view, complaints);
  if (offloads_optimizer(*view.plan) && !sharded) {
    complaints.push_back(place_of(first) + ".switches.offload_optimizer: needs sharded states");
  }
  if (bucket_elements(view, complaints) > 0 && !sharded) {
    complaints.push_back("target_knobs.bucket_bytes: needs sharded states");
  }
}

ExportedPlan write(const PlanLayers& view) {
  const OperatorSetting& first = view.operators.front();
  Complaints none;
  OrderedJson zero{{"stage", static_cast<int>(first.sharded)}};
  if (const std::int64_t elements = bucket_elements(view, none); elements > 0) zero["reduce_bucket_size"] = elements;
  if (offloads_optimizer(*view.plan)) zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  const OrderedJson json{{"train_batch_size", view.plan->global_batch},
                         {"train_micro_batch_size_per_gpu", view.plan->microbatch / first.dp},
                         {"gradient_accumulation_steps", view.plan->microbatches()},
                         {"zero_optimization", std::move(zero)}};
  return {{}, "deepspeed.json", json.dump(2) + "\n"};
}

}  // namespace

TargetEntry deepspeed_target() {
  TargetEntry entry;
  entry.name = "deepspeed";
  entry.knobs = {{"global_batch", "train_batch_size"},
                 {"microbatch", "train_micro_batch_size_per_gpu, samples of one replica; gradient_accumulation_steps"},
                 {"segments.dp", "every rank; one stage"},
                 {"segments.sharded", "zero_optimization.stage: none 0, optimizer 1, gradients 2, parameters 3"},
                 {"switches.offload_optimizer", "zero_optimization.offload_optimizer, with sharded states"},
                 {"target_knobs.bucket_bytes",
                  "zero_optimization.reduce_bucket_size, in elements of the model's dtype, with sharded states"}};
  entry.limits.sharded = Reach::kJob;
  entry.limits.levels = {ShardedLevel::kNone, ShardedLevel::kOptimizer, ShardedLevel::kGradients,
                         ShardedLevel::kParameters};
  entry.check = check;
  entry.write = write;
  return entry;
}

}  // namespace trimtab
