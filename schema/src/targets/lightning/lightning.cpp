// Lightning: the Trainer's arguments as LightningCLI's words (lightning/pytorch/trainer/trainer.py and strategies/, 2.0
// to 2.6). The batch is the data module's own, by the name that Lightning's have. Processes are those of the command,
// since no plan changes devices and num_nodes.

#include "targets/deepspeed/deepspeed.hpp"
#include "targets/replicas.hpp"

namespace trimtab {

namespace {

constexpr std::int64_t kMib = 1 << 20;

using Arguments = std::vector<std::string>;

void add(Arguments& out, const std::string& name, const std::string& value) {
  out.push_back("--" + name);
  out.push_back(value);
}

void need_nothing_recomputed(const PlanLayers& view, Complaints& complaints) {
  for (const OperatorSetting& one : view.operators) {
    if (!one.recompute) continue;
    complaints.push_back(place_of(one) +
                         ".recompute: must be empty; what is recomputed is in the module's code, or a class that no "
                         "plan names");
    return;
  }
}

void check_torch(const PlanLayers& view, Complaints& complaints) {
  need_replicas(view, false, complaints);
  need_nothing_recomputed(view, complaints);
  need_fsdp_level(view, "target lightning-deepspeed shards the optimizer", complaints);
  need_known_knobs(view, {kBucketKnob}, complaints);
  const std::int64_t bytes = bytes_knob(view, kBucketKnob, complaints);
  if (bytes > 0 && sharded_level(view) != ShardedLevel::kNone) {
    complaints.push_back("target_knobs.bucket_bytes: needs replicas that shard nothing, since FSDP has no buckets");
  }
}

void check_deepspeed(const PlanLayers& view, Complaints& complaints) {
  need_zero_replicas(view, complaints);
  need_nothing_recomputed(view, complaints);
}

Arguments common(const PlanLayers& view) {
  Arguments out;
  add(out, "data.batch_size", std::to_string(samples_of_replica(view)));
  add(out, "trainer.accumulate_grad_batches", std::to_string(view.plan->microbatches()));
  return out;
}

void add_sharding(const PlanLayers& view, Arguments& out) {
  const OperatorSetting& first = view.operators.front();
  const bool parameters = sharded_level(view) == ShardedLevel::kParameters;
  const bool hybrid = first.sharded != ShardedLevel::kNone && first.sharded_degree < first.dp;
  add(out, "trainer.strategy", "FSDPStrategy");
  const char* const whole = parameters ? "FULL_SHARD" : "SHARD_GRAD_OP";
  const char* const parts = parameters ? "HYBRID_SHARD" : "_HYBRID_SHARD_ZERO2";
  add(out, "trainer.strategy.sharding_strategy", hybrid ? parts : whole);
  if (!hybrid) return;
  add(out, "trainer.strategy.device_mesh",
      "[" + std::to_string(first.dp / first.sharded_degree) + "," + std::to_string(first.sharded_degree) + "]");
}

ExportedPlan write_torch(const PlanLayers& view) {
  Arguments out = common(view);
  Complaints none;
  const std::int64_t bytes = bytes_knob(view, kBucketKnob, none);
  if (sharded_level(view) != ShardedLevel::kNone) {
    add_sharding(view, out);
  } else {
    add(out, "trainer.strategy", bytes > 0 ? "DDPStrategy" : "ddp");
    const Json mib = static_cast<double>(bytes) / kMib;
    if (bytes > 0)
      add(out, "trainer.strategy.bucket_cap_mb", bytes % kMib == 0 ? std::to_string(bytes / kMib) : dump(mib));
  }
  return {std::move(out), "", ""};
}

ExportedPlan write_deepspeed(const PlanLayers& view) {
  Arguments out = common(view);
  Complaints none;
  const int stage = static_cast<int>(sharded_level(view));
  add(out, "trainer.strategy", "DeepSpeedStrategy");
  if (stage == 0) {
    add(out, "trainer.strategy.zero_optimization", "false");
    return {std::move(out), "", ""};
  }
  add(out, "trainer.strategy.stage", std::to_string(stage));
  add(out, "trainer.strategy.offload_optimizer", offloads_optimizer(*view.plan) ? "true" : "false");
  const std::int64_t elements = bucket_elements(view, none);
  if (elements > 0) add(out, "trainer.strategy.reduce_bucket_size", std::to_string(elements));
  return {std::move(out), "", ""};
}

TargetEntry entry_of(std::string_view name) {
  TargetEntry entry;
  entry.name = name;
  entry.knobs = {{"global_batch", "data.batch_size * trainer.accumulate_grad_batches * ranks"},
                 {"microbatch", "data.batch_size, samples of one replica; trainer.accumulate_grad_batches"}};
  entry.limits.sharded = Reach::kJob;
  return entry;
}

}  // namespace

TargetEntry lightning_target() {
  TargetEntry entry = entry_of("lightning");
  entry.knobs.insert(entry.knobs.end(),
                     {{"segments.dp", "every rank, trainer.devices * trainer.num_nodes; one stage"},
                      {"segments.sharded",
                       "trainer.strategy: none ddp; FSDPStrategy with sharding_strategy SHARD_GRAD_OP gradients, "
                       "FULL_SHARD parameters"},
                      {"segments.sharded_degree",
                       "less than dp: _HYBRID_SHARD_ZERO2 or HYBRID_SHARD over a device_mesh of replicas and shards"},
                      {"target_knobs.bucket_bytes", "bucket_cap_mb of DDPStrategy, where nothing is sharded"}});
  entry.limits.partial_shards = true;
  entry.limits.levels = {ShardedLevel::kNone, ShardedLevel::kGradients, ShardedLevel::kParameters};
  entry.check = check_torch;
  entry.write = write_torch;
  return entry;
}

TargetEntry lightning_deepspeed_target() {
  TargetEntry entry = entry_of("lightning-deepspeed");
  entry.knobs.insert(
      entry.knobs.end(),
      {{"segments.dp", "every rank, trainer.devices * trainer.num_nodes; one stage"},
       {"segments.sharded",
        "DeepSpeedStrategy's stage: optimizer 1, gradients 2, parameters 3; none: zero_optimization false"},
       {"switches.offload_optimizer", "DeepSpeedStrategy's offload_optimizer, with sharded states"},
       {"target_knobs.bucket_bytes",
        "DeepSpeedStrategy's reduce_bucket_size, in elements of the model's dtype, with sharded states"}});
  entry.limits.levels = {ShardedLevel::kNone, ShardedLevel::kOptimizer, ShardedLevel::kGradients,
                         ShardedLevel::kParameters};
  entry.check = check_deepspeed;
  entry.write = write_deepspeed;
  return entry;
}

}  // namespace trimtab
