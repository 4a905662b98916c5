// accelerate: the configuration file of `accelerate launch --config_file` (accelerate/commands/config/config_args.py,
// 1.0 to 1.15), and the environment that its launcher makes of it for the ranks (accelerate/utils/launch.py). The batch
// is the script's own, by the names that accelerate's examples have.

#include "targets/deepspeed/deepspeed.hpp"
#include "targets/replicas.hpp"

namespace trimtab {

namespace {

constexpr const char* kRanksAlone = " where accelerate's launcher does not read the file";

using Environment = std::map<std::string, std::string>;

const char* word(bool value) {
  return value ? "true" : "false";
}

void check_torch(const PlanLayers& view, Complaints& complaints) {
  need_replicas(view, false, complaints);
  need_one_recompute(view, complaints);
  need_fsdp_level(view, "target accelerate-deepspeed shards the optimizer", complaints);
  need_known_knobs(view, {}, complaints);
  if (view.operators.front().sharded == ShardedLevel::kNone && recomputes_layers(view)) {
    complaints.push_back(
        place_of(view.operators.front()) +
        ".recompute: needs sharded gradients or parameters, since accelerate recomputes with FSDP alone");
  }
}

void check_deepspeed(const PlanLayers& view, Complaints& complaints) {
  need_zero_replicas(view, complaints);
  need_known_knobs(view, {}, complaints);
  need_one_recompute(view, complaints);
  if (!recomputes_layers(view)) return;
  complaints.push_back(place_of(view.operators.front()) +
                       ".recompute: must be empty; what is recomputed under DeepSpeed is in the script");
}

std::vector<std::string> batch_arguments(const PlanLayers& view) {
  return {"--per_device_train_batch_size", std::to_string(samples_of_replica(view)), "--gradient_accumulation_steps",
          std::to_string(view.plan->microbatches())};
}

std::string head(const PlanLayers& view, const std::string& type) {
  return "compute_environment: LOCAL_MACHINE\ndistributed_type: " + type +
         "\nnum_processes: " + std::to_string(view.operators.front().dp) + "\n";
}

Environment steps_environment(const PlanLayers& view) {
  return {{"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", std::to_string(view.plan->microbatches())}};
}

// Shards in groups, replicas over them: FSDP2 has a mesh for that.
void add_mesh(const OperatorSetting& first, std::string& text, Environment& environment) {
  if (first.sharded == ShardedLevel::kNone || first.sharded_degree == first.dp) {
    environment["ACCELERATE_USE_PARALLELISM_CONFIG"] = "false";
    return;
  }
  const std::string replicate = std::to_string(first.dp / first.sharded_degree);
  const std::string shard = std::to_string(first.sharded_degree);
  text += "parallelism_config:\n  parallelism_config_dp_replicate_size: " + replicate +
          "\n  parallelism_config_dp_shard_size: " + shard + "\n";
  environment["ACCELERATE_USE_PARALLELISM_CONFIG"] = "true";
  environment["PARALLELISM_CONFIG_DP_REPLICATE_SIZE"] = replicate;
  environment["PARALLELISM_CONFIG_DP_SHARD_SIZE"] = shard;
}

ExportedPlan write_torch(const PlanLayers& view) {
  const OperatorSetting& first = view.operators.front();
  const bool sharded = sharded_level(view) != ShardedLevel::kNone;
  Environment environment = steps_environment(view);
  environment["ACCELERATE_USE_FSDP"] = word(sharded);
  std::string text = head(view, sharded ? "FSDP" : first.dp > 1 ? "MULTI_GPU" : "NO");
  if (sharded) {
    const char* const reshard = word(sharded_level(view) == ShardedLevel::kParameters);
    const char* const recompute = word(recomputes_layers(view));
    text += std::string("fsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n") +
            "  fsdp_reshard_after_forward: " + reshard + "\n  fsdp_activation_checkpointing: " + recompute + "\n";
    environment["FSDP_VERSION"] = "2";
    environment["FSDP_AUTO_WRAP_POLICY"] = "TRANSFORMER_BASED_WRAP";
    environment["FSDP_RESHARD_AFTER_FORWARD"] = reshard;
    environment["FSDP_ACTIVATION_CHECKPOINTING"] = recompute;
  }
  add_mesh(first, text, environment);
  return {batch_arguments(view), "accelerate.yaml", std::move(text), std::move(environment), kRanksAlone};
}

ExportedPlan write_deepspeed(const PlanLayers& view) {
  const std::string stage = std::to_string(static_cast<int>(sharded_level(view)));
  const std::string steps = std::to_string(view.plan->microbatches());
  const char* const device = offloads_optimizer(*view.plan) ? "cpu" : "none";
  std::string text = head(view, "DEEPSPEED") + "deepspeed_config:\n  zero_stage: " + stage +
                     "\n  gradient_accumulation_steps: " + steps + "\n  offload_optimizer_device: " + device +
                     "\n  offload_param_device: none\n";
  Environment environment = steps_environment(view);
  environment["ACCELERATE_USE_DEEPSPEED"] = "true";
  environment["ACCELERATE_DEEPSPEED_ZERO_STAGE"] = stage;
  environment["ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE"] = device;
  environment["ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE"] = "none";
  return {batch_arguments(view), "accelerate.yaml", std::move(text), std::move(environment), kRanksAlone};
}

TargetEntry entry_of(std::string_view name) {
  TargetEntry entry;
  entry.name = name;
  entry.knobs = {{"global_batch", "per_device_train_batch_size * gradient_accumulation_steps * num_processes"},
                 {"microbatch",
                  "per_device_train_batch_size and gradient_accumulation_steps of the script, and "
                  "ACCELERATE_GRADIENT_ACCUMULATION_STEPS"},
                 {"segments.dp", "num_processes; one stage"}};
  entry.limits.sharded = Reach::kJob;
  return entry;
}

}  // namespace

TargetEntry accelerate_target() {
  TargetEntry entry = entry_of("accelerate");
  entry.knobs.insert(
      entry.knobs.end(),
      {{"segments.recompute", "fsdp_activation_checkpointing: every layer or none, with sharded states"},
       {"segments.sharded", "none: DDP; fsdp_reshard_after_forward: gradients false, parameters true (fsdp_version 2)"},
       {"segments.sharded_degree", "less than dp: parallelism_config_dp_shard_size, and replicas of it"}});
  entry.limits.recompute = Reach::kJob;
  entry.limits.partial_shards = true;
  entry.limits.recompute_sharded = true;
  entry.limits.levels = {ShardedLevel::kNone, ShardedLevel::kGradients, ShardedLevel::kParameters};
  entry.check = check_torch;
  entry.write = write_torch;
  return entry;
}

TargetEntry accelerate_deepspeed_target() {
  TargetEntry entry = entry_of("accelerate-deepspeed");
  entry.knobs.insert(entry.knobs.end(),
                     {{"segments.sharded", "zero_stage: none 0, optimizer 1, gradients 2, parameters 3"},
                      {"switches.offload_optimizer", "offload_optimizer_device: cpu, with sharded states"}});
  entry.limits.levels = {ShardedLevel::kNone, ShardedLevel::kOptimizer, ShardedLevel::kGradients,
                         ShardedLevel::kParameters};
  entry.check = check_deepspeed;
  entry.write = write_deepspeed;
  return entry;
}

}  // namespace trimtab
