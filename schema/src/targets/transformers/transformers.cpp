// transformers' Trainer: its TrainingArguments as words of a command (transformers/training_args.py, 4.40 to 5.24).
// Under PyTorch's own data parallelism, or under DeepSpeed: a job stays with the one that it has.

#include "targets/deepspeed/deepspeed.hpp"
#include "targets/replicas.hpp"

namespace trimtab {

namespace {

constexpr std::int64_t kMib = 1 << 20;

using Arguments = std::vector<std::string>;

void add(Arguments& out, const char* name, const std::string& value) {
  out.emplace_back(name);
  out.push_back(value);
}

// One of the Trainer's is whole MiB, and of DDP alone.
void check_bucket(const PlanLayers& view, Complaints& complaints) {
  const std::int64_t bytes = bytes_knob(view, kBucketKnob, complaints);
  if (bytes == 0) return;
  if (bytes % kMib != 0) {
    complaints.push_back("target_knobs.bucket_bytes: must be a multiple of " + std::to_string(kMib) +
                         ", since ddp_bucket_cap_mb is whole, found " + std::to_string(bytes));
  }
  if (sharded_level(view) != ShardedLevel::kNone) {
    complaints.push_back("target_knobs.bucket_bytes: needs replicas that shard nothing, since FSDP has no buckets");
  }
}

void check_torch(const PlanLayers& view, Complaints& complaints) {
  need_replicas(view, false, complaints);
  need_one_recompute(view, complaints);
  need_sharding_over_all(view, complaints);
  need_fsdp_level(view, "target transformers-deepspeed shards the optimizer", complaints);
  need_known_knobs(view, {kBucketKnob}, complaints);
  check_bucket(view, complaints);
}

void check_deepspeed(const PlanLayers& view, Complaints& complaints) {
  need_zero_replicas(view, complaints);
  need_one_recompute(view, complaints);
  const bool switched = offloads_optimizer(*view.plan) && sharded_level(view) == ShardedLevel::kGradients;
  if (!switched || !recomputes_layers(view)) return;
  // A plan has memory switches then, which hold for the embedding with the first layer (tuner/validate.hpp).
  complaints.push_back(place_of(view.operators.front()) +
                       ".switches.offload_optimizer: beside sharded gradients needs that no layer is recomputed");
}

Arguments common(const PlanLayers& view, bool recompute) {
  Arguments out;
  add(out, "--per_device_train_batch_size", std::to_string(samples_of_replica(view)));
  add(out, "--gradient_accumulation_steps", std::to_string(view.plan->microbatches()));
  add(out, "--gradient_checkpointing", recompute ? "True" : "False");
  return out;
}

// FSDP recomputes by itself, for the Trainer's own way would gather parameters once more.
ExportedPlan write_torch(const PlanLayers& view) {
  const ShardedLevel level = sharded_level(view);
  const bool recompute = recomputes_layers(view);
  const bool sharded = level != ShardedLevel::kNone;
  Arguments out = common(view, recompute && !sharded);
  Complaints none;
  const std::int64_t bytes = bytes_knob(view, kBucketKnob, none);
  if (bytes > 0) add(out, "--ddp_bucket_cap_mb", std::to_string(bytes / kMib));
  if (!sharded) return {std::move(out), "", ""};
  const bool parameters = level == ShardedLevel::kParameters;
  // Releases before 5 take no --fsdp without these words, and later ones take them still.
  add(out, "--fsdp", parameters ? "full_shard auto_wrap" : "shard_grad_op auto_wrap");
  const OrderedJson config{
      {"version", 2}, {"reshard_after_forward", parameters}, {"activation_checkpointing", recompute}};
  add(out, "--fsdp_config", dump(config));
  return {std::move(out), "", ""};
}

// "auto" is filled in by the Trainer from its other arguments.
ExportedPlan write_deepspeed(const PlanLayers& view) {
  Arguments out = common(view, recomputes_layers(view));
  OrderedJson config = zero_configuration(view);
  config["bf16"] = config["fp16"] = {{"enabled", "auto"}};
  config["gradient_clipping"] = "auto";
  add(out, "--deepspeed", dump(config));
  return {std::move(out), "", ""};
}

TargetEntry entry_of(std::string_view name) {
  TargetEntry entry;
  entry.name = name;
  entry.knobs = {{"global_batch", "per_device_train_batch_size * gradient_accumulation_steps * ranks"},
                 {"microbatch", "per_device_train_batch_size, samples of one replica; gradient_accumulation_steps"},
                 {"segments.recompute",
                  "gradient_checkpointing, under FSDP fsdp_config.activation_checkpointing: every layer or none"}};
  entry.limits.sharded = entry.limits.recompute = Reach::kJob;
  return entry;
}

}  // namespace

TargetEntry transformers_target() {
  TargetEntry entry = entry_of("transformers");
  entry.knobs.insert(
      entry.knobs.end(),
      {{"segments.dp", "every rank; one stage"},
       {"segments.sharded",
        "none: DDP; fsdp and fsdp_config.reshard_after_forward: gradients false, parameters true (FSDP2)"},
       {"target_knobs.bucket_bytes", "ddp_bucket_cap_mb, whole MiB, where nothing is sharded"}});
  entry.limits.levels = {ShardedLevel::kNone, ShardedLevel::kGradients, ShardedLevel::kParameters};
  entry.check = check_torch;
  entry.write = write_torch;
  return entry;
}

TargetEntry transformers_deepspeed_target() {
  TargetEntry entry = entry_of("transformers-deepspeed");
  entry.knobs.insert(entry.knobs.end(), zero_knobs().begin(), zero_knobs().end());
  entry.limits.levels = {ShardedLevel::kNone, ShardedLevel::kOptimizer, ShardedLevel::kGradients,
                         ShardedLevel::kParameters};
  entry.check = check_deepspeed;
  entry.write = write_deepspeed;
  return entry;
}

}  // namespace trimtab
