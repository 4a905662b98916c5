// DeepSpeed: the configuration file of --deepspeed_config (deepspeed/runtime/config.py, runtime/zero/config.py).

#include "targets/deepspeed/deepspeed.hpp"

#include "targets/replicas.hpp"

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
  need_zero_replicas(view, complaints);
  check_recompute(view, complaints);
}

ExportedPlan write(const PlanLayers& view) {
  return {{}, "deepspeed.json", zero_configuration(view).dump(2) + "\n"};
}

}  // namespace

void need_zero_replicas(const PlanLayers& view, Complaints& complaints) {
  need_replicas(view, true, complaints);
  need_known_knobs(view, {kBucketKnob}, complaints);
  const OperatorSetting& first = view.operators.front();
  const bool sharded = sharded_level(view) != ShardedLevel::kNone;
  need_sharding_over_all(view, complaints);
  if (offloads_optimizer(*view.plan) && !sharded) {
    complaints.push_back(place_of(first) + ".switches.offload_optimizer: needs sharded states");
  }
  if (bucket_elements(view, complaints) > 0 && !sharded) {
    complaints.push_back("target_knobs.bucket_bytes: needs sharded states");
  }
}

OrderedJson zero_configuration(const PlanLayers& view) {
  Complaints none;
  OrderedJson zero{{"stage", static_cast<int>(sharded_level(view))}};
  if (const std::int64_t elements = bucket_elements(view, none); elements > 0) zero["reduce_bucket_size"] = elements;
  if (offloads_optimizer(*view.plan)) zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  return {{"train_batch_size", view.plan->global_batch},
          {"train_micro_batch_size_per_gpu", samples_of_replica(view)},
          {"gradient_accumulation_steps", view.plan->microbatches()},
          {"zero_optimization", std::move(zero)}};
}

const std::vector<TargetKnob>& zero_knobs() {
  static const std::vector<TargetKnob> kKnobs{
      {"segments.dp", "every rank; one stage"},
      {"segments.sharded", "zero_optimization.stage: none 0, optimizer 1, gradients 2, parameters 3"},
      {"switches.offload_optimizer", "zero_optimization.offload_optimizer, with sharded states"},
      {"target_knobs.bucket_bytes",
       "zero_optimization.reduce_bucket_size, in elements of the model's dtype, with sharded states"}};
  return kKnobs;
}

TargetEntry deepspeed_target() {
  TargetEntry entry;
  entry.name = "deepspeed";
  entry.knobs = {{"global_batch", "train_batch_size"},
                 {"microbatch", "train_micro_batch_size_per_gpu, samples of one replica; gradient_accumulation_steps"}};
  entry.knobs.insert(entry.knobs.end(), zero_knobs().begin(), zero_knobs().end());
  entry.limits.sharded = Reach::kJob;
  entry.limits.levels = {ShardedLevel::kNone, ShardedLevel::kOptimizer, ShardedLevel::kGradients,
                         ShardedLevel::kParameters};
  entry.check = check;
  entry.write = write;
  return entry;
}

}  // namespace trimtab
