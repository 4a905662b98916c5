// accelerate's configuration, read back: the file of `accelerate launch --config_file`, with the launcher's options,
// which come before it (accelerate/commands/launch.py), and what the script's own say of the batch.

#include <algorithm>
#include <array>

#include "targets/accelerate/accelerate_tree.hpp"
#include "targets/fsdp_members.hpp"
#include "targets/plan_readers.hpp"
#include "targets/plan_stages.hpp"

namespace trimtab {

namespace {

constexpr const char* kReplicate = "parallelism_config.dp_replicate_size";
constexpr const char* kShard = "parallelism_config.dp_shard_size";
constexpr const char* kDeepspeedSteps = "deepspeed_config.gradient_accumulation_steps";
constexpr const char* kSteps = "script.gradient_accumulation_steps";

constexpr std::array<UnsayableMember, 5> kUnsayable{
    {{"parallelism_config.tp_size", 1, "a plan exports no tensor parallelism for accelerate"},
     {"parallelism_config.cp_size", 1, "a plan exports no context parallelism for accelerate"},
     {"parallelism_config.sp_size", 1, "a plan exports no sequence parallelism for accelerate"},
     {"tpu_use_cluster", 0, "a plan is for GPUs and CPUs"},
     {"split_batches", 0, "a batch that ranks share is none of each"}}};

class Reader : PlanReader {
 public:
  using PlanReader::PlanReader;

  Result<Plan> plan() {
    TRIMTAB_TRY_STATUS(members_.check_sayable(kUnsayable));
    TRIMTAB_TRY(const std::string engine, members_.text("engine", ""));
    // What the engine was read from.
    for (const char* const path : {"compute_environment", "distributed_type", "use_fsdp", "use_deepspeed", "multi_gpu",
                                   "cpu", "use_cpu", "config_file", "use_parallelism_config"}) {
      (void)members_.find(path);
    }
    TRIMTAB_TRY_STATUS(read_ranks());
    TRIMTAB_TRY_STATUS(read_batch(engine == "DEEPSPEED"));
    TRIMTAB_TRY(replicas_.recompute, members_.flag("script.gradient_checkpointing", false));
    if (engine == "FSDP") TRIMTAB_TRY_STATUS(read_sharding());
    if (engine == "DEEPSPEED") TRIMTAB_TRY_STATUS(read_zero());
    constexpr std::array<std::string_view, 4> kReplicas{"", "NO", "MULTI_GPU", "MULTI_CPU"};
    if (engine != "FSDP" && engine != "DEEPSPEED" && std::ranges::find(kReplicas, engine) == kReplicas.end()) {
      return members_.refusal("distributed_type",
                              "a plan for accelerate is of NO, MULTI_GPU, MULTI_CPU, FSDP or "
                              "DEEPSPEED, found " +
                                  quoted_text(engine));
    }
    return plan_of(replicas_, model_, engine == "DEEPSPEED" ? "accelerate-deepspeed" : "accelerate", "accelerate");
  }

 private:
  // -1: the launcher must say it.
  Status read_ranks() {
    TRIMTAB_TRY(const std::optional<std::int64_t> said, members_.integer("num_processes"));
    TRIMTAB_TRY(const std::optional<std::int32_t> machines, members_.count("num_machines"));
    machines_ = machines.value_or(1);
    if (file_.ranks) {
      replicas_.ranks = *file_.ranks;
      return {};
    }
    if (!said || *said == -1) return ranks_needed("num_processes is not said");
    if (*said < 1 || *said > 1 << 20) {
      return members_.refusal("num_processes", "expected 1 to 1048576, found " + std::to_string(*said));
    }
    replicas_.ranks = static_cast<std::int32_t>(*said);
    return {};
  }

  Status read_batch(bool deepspeed) {
    constexpr const char* kSamples = "script.per_device_train_batch_size";
    std::optional<std::int32_t> samples;
    for (const char* const path : {kSamples, "script.train_batch_size", "script.batch_size"}) {
      if (samples) break;
      TRIMTAB_TRY(samples, members_.count(path));
    }
    if (!samples) {
      return members_.refusal("per_device_train_batch_size",
                              "accelerate does not say the batch; add what the script has: `-- "
                              "--per_device_train_batch_size N`, --train_batch_size or --batch_size, of each rank");
    }
    replicas_.samples = *samples;
    TRIMTAB_TRY(const std::optional<std::int32_t> own, members_.count(kSteps));
    std::optional<std::int32_t> launched;
    if (deepspeed && !members_.is_auto(kDeepspeedSteps)) {
      TRIMTAB_TRY(launched, members_.count(kDeepspeedSteps));
    }
    if (own && launched && *own != *launched) {
      return members_.refusal(kDeepspeedSteps, "is " + std::to_string(*launched) +
                                                   ", which takes the place of the script's " + std::to_string(*own) +
                                                   "; give one of them");
    }
    replicas_.microbatches = launched.value_or(own.value_or(1));
    return {};
  }

  Status read_sharding() {
    if (members_.find("fsdp_config.auto_wrap_policy") == nullptr) {
      return members_.refusal(
          "fsdp_config.auto_wrap_policy",
          "accelerate shards the whole model as one where it is not said, and a plan layer by layer; "
          "say TRANSFORMER_BASED_WRAP");
    }
    const Json* const strategy = members_.find("fsdp_config.sharding_strategy");
    const Json* const reshard = members_.find("fsdp_config.reshard_after_forward");
    TRIMTAB_TRY(const FsdpUse use, read_fsdp(members_, 1, std::nullopt));
    const Json* const version = members_.find("fsdp_config.version");
    const bool first = version == nullptr || *version == 1 || *version == "1";
    if (first && strategy == nullptr && reshard != nullptr && use.level != ShardedLevel::kParameters) {
      return members_.refusal("fsdp_config.reshard_after_forward",
                              "accelerate's launcher gives FSDP1 FULL_SHARD whatever this says; say it in "
                              "fsdp_sharding_strategy");
    }
    replicas_.sharded = use.level;
    replicas_.recompute = replicas_.recompute || use.recompute;
    if (use.within_nodes) {
      if (replicas_.ranks % machines_ != 0) {
        return members_.refusal("num_machines", "must divide the ranks, " + std::to_string(replicas_.ranks) +
                                                    ", found " + std::to_string(machines_));
      }
      replicas_.sharded_degree = replicas_.ranks / machines_;
    }
    return first ? Status{} : read_mesh();
  }

  Status read_mesh() {
    TRIMTAB_TRY(const std::optional<std::int32_t> replicate, members_.count(kReplicate));
    TRIMTAB_TRY(const std::optional<std::int32_t> shard, members_.count(kShard));
    if (replicate.value_or(1) == 1 && shard.value_or(1) == 1) return {};
    const std::int64_t all = std::int64_t{replicate.value_or(1)} * shard.value_or(1);
    if (all != replicas_.ranks || shard.value_or(1) == 1) {
      return members_.refusal(kShard,
                              "parallelism_config_dp_replicate_size x dp_shard_size, with 2 or more of the latter, "
                              "must be the " +
                                  std::to_string(replicas_.ranks) + " ranks, found " +
                                  std::to_string(replicate.value_or(1)) + " x " + std::to_string(shard.value_or(1)));
    }
    replicas_.sharded_degree = *shard;
    return {};
  }

  Status read_zero() {
    if (members_.find("deepspeed_config.deepspeed_config_file") != nullptr) {
      return members_.refusal("deepspeed_config.deepspeed_config_file",
                              "DeepSpeed's own file says the plan; import that: trimtab plan import FILE --ranks N -- "
                              "--per_device_train_batch_size N");
    }
    TRIMTAB_TRY(const std::optional<std::int64_t> stage, members_.integer("deepspeed_config.zero_stage"));
    if (stage && (*stage < 0 || *stage > 3)) {
      return members_.refusal("deepspeed_config.zero_stage", "expected 0 to 3, found " + std::to_string(*stage));
    }
    replicas_.sharded = static_cast<ShardedLevel>(stage.value_or(2));
    TRIMTAB_TRY(const std::string parameters, members_.text("deepspeed_config.offload_param_device", "none"));
    if (parameters != "none") {
      return members_.refusal("deepspeed_config.offload_param_device",
                              "a plan leaves parameters on the device, found " + quoted_text(parameters));
    }
    constexpr const char* kDevice = "deepspeed_config.offload_optimizer_device";
    TRIMTAB_TRY(const std::string optimizer, members_.text(kDevice, "none"));
    replicas_.offload_optimizer = optimizer == "cpu";
    if (optimizer == "cpu" || optimizer == "none") return {};
    return members_.refusal(kDevice,
                            "a plan offloads to the host's memory (cpu) alone, found " + quoted_text(optimizer));
  }

  Replicas replicas_;
  std::int32_t machines_ = 1;
};

}  // namespace

std::span<const std::string_view> accelerate_plan_options() {
  static constexpr std::array<std::string_view, 2> kOptions{"per-device-train-batch-size",
                                                            "gradient-accumulation-steps"};
  return kOptions;
}

Result<Plan> read_accelerate_plan(PlanMembers& members, const PlanFile& file, const Model& model) {
  return Reader(members, file, model).plan();
}

}  // namespace trimtab
