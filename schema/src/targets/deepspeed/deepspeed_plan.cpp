// DeepSpeed's configuration, read back (deepspeed/runtime/config.py and runtime/zero/config.py, 0.19). "auto" is
// transformers' (transformers/integrations/deepspeed.py), which fills it in from its own arguments.

#include <array>

#include "base/numbers.hpp"
#include "schema/launch_script.hpp"
#include "targets/plan_layers.hpp"
#include "targets/plan_readers.hpp"
#include "targets/plan_stages.hpp"

namespace trimtab {

namespace {

constexpr const char* kBatch = "train_batch_size";
constexpr const char* kMicro = "train_micro_batch_size_per_gpu";
constexpr const char* kSteps = "gradient_accumulation_steps";
constexpr const char* kZero = "zero_optimization";
constexpr const char* kBucket = "zero_optimization.reduce_bucket_size";
constexpr const char* kOffload = "zero_optimization.offload_optimizer";

constexpr std::array<UnsayableMember, 18> kUnsayable{
    {{"zero_optimization.zero_hpz_partition_size", 1, "a plan has no second copy of parameters in each node"},
     {"zero_optimization.mics_shard_size", -1, "a plan exports no sharding over a part of the replicas for DeepSpeed"},
     {"zero_optimization.zero_quantized_weights", 0, "a plan communicates parameters as they are"},
     {"zero_optimization.zero_quantized_nontrainable_weights", 0, "a plan communicates parameters as they are"},
     {"zero_optimization.zero_quantized_gradients", 0, "a plan communicates gradients as they are"},
     {"zero_optimization.cpu_offload_param", 0, "a plan leaves parameters on the device"},
     {"zero_optimization.cpu_offload_params", 0, "a plan leaves parameters on the device"},
     {"zero_optimization.offload_optimizer.super_offload", 0, "a plan knows offloading without it"},
     {"activation_checkpointing.cpu_checkpointing", 0, "a plan exports no activations on the host for DeepSpeed"},
     {"pipeline.activation_checkpoint_interval", 0, "a plan exports nothing recomputed for DeepSpeed"},
     {"tensor_parallel.autotp_size", 1, "a plan exports no tensor parallelism for DeepSpeed"},
     {"tensor_parallel.tp.tp_size", 1, "a plan exports no tensor parallelism for DeepSpeed"},
     {"expert_parallel.enabled", 0, "a plan has no experts"},
     {"expert_parallel.ep_size", 1, "a plan has no experts"},
     {"sequence_parallel_size", 1, "a plan exports no sequence parallelism for DeepSpeed"},
     {"elasticity.enabled", 0, "the batch follows the number of ranks, and a plan has one"},
     {"autotuning.enabled", 0, "DeepSpeed chooses the batch and the stage itself"},
     {"hybrid_engine.enabled", 0, "a plan has no changes between training and generation"}}};

// DeepSpeed refuses any other member of zero_optimization. These change how it runs.
constexpr std::string_view kHowZeroRuns = R"(
contiguous_gradients reduce_scatter use_multi_rank_bucket_allreduce allgather_partitions allgather_bucket_size
overlap_comm compute_grad_norm load_from_fp32_weights elastic_checkpoint sub_group_size
cpu_offload_use_pin_memory prefetch_bucket_size param_persistence_threshold model_persistence_threshold
max_live_parameters max_reuse_distance gather_16bit_weights_on_model_save module_granularity_threshold
use_all_reduce_for_fetch_params allgather_sequential stage3_prefetch_bucket_size
stage3_param_persistence_threshold stage3_model_persistence_threshold stage3_max_live_parameters
stage3_max_reuse_distance stage3_gather_16bit_weights_on_model_save stage3_gather_fp16_weights_on_model_save
ignore_unused_parameters legacy_stage1 round_robin_gradients parameter_alignment memory_efficient_linear
pipeline_loading_checkpoint override_module_apply log_trace_cache_warnings enable_sanity_checks leaf_module
stage3_module_granularity_threshold stage3_use_all_reduce_for_fetch_params stage3_allgather_sequential
save_muon_momentum_buffer_in_memory mics_hierarchical_params_gather
)";

class Reader : PlanReader {
 public:
  using PlanReader::PlanReader;

  Result<Plan> plan() {
    TRIMTAB_TRY_STATUS(check_sayable());
    Plan plan;
    plan.model = model_.name;
    Segment segment;
    TRIMTAB_TRY(segment.sharded, level());
    TRIMTAB_TRY(segment.switches.offload_optimizer, offloads_optimizer());
    TRIMTAB_TRY_STATUS(read_batch(plan));
    segment.dp = ranks_;
    if (ranks_ == 1) segment.sharded = ShardedLevel::kNone;
    TRIMTAB_TRY_STATUS(read_bucket(segment.sharded, plan));
    TRIMTAB_TRY_STATUS(check_zero_members());
    TRIMTAB_TRY(const ModelLayers parts, layers_of(model_));
    TRIMTAB_TRY(plan.stages, plan_stages(
                                 model_, parts, {{static_cast<std::int32_t>(parts.layers.size())}, 1, ranks_},
                                 [&](std::int32_t) { return OperatorPlan{segment}; }, "--ranks"));
    TRIMTAB_TRY_STATUS(check_import(plan, model_, "deepspeed", "DeepSpeed"));
    return plan;
  }

 private:
  Status check_sayable() {
    TRIMTAB_TRY_STATUS(members_.check_sayable(kUnsayable));
    TRIMTAB_TRY_STATUS(need_none("zero_optimization.zenflow", "a plan has no updates that come late"));
    TRIMTAB_TRY(const std::string parameters, members_.text("zero_optimization.offload_param.device", "none"));
    if (parameters != "none") {
      return members_.refusal("zero_optimization.offload_param.device",
                              "a plan leaves parameters on the device, found " + quoted_text(parameters));
    }
    const Json* const stages = members_.find("pipeline.stages");
    if (stages == nullptr || *stages == "auto" || *stages == 1) return {};
    return members_.refusal("pipeline.stages", "a plan exports no pipeline for DeepSpeed");
  }

  Status need_none(const char* path, const std::string& why) {
    if (members_.find(path) == nullptr) return {};
    return members_.refusal(path, why);
  }

  Result<ShardedLevel> level() {
    const Json* const zero = members_.find(kZero);
    if (zero == nullptr) return ShardedLevel::kNone;
    // What DeepSpeed has read since its first releases.
    if (zero->is_boolean()) return zero->get<bool>() ? ShardedLevel::kOptimizer : ShardedLevel::kNone;
    if (!zero->is_object()) return members_.refusal(kZero, "expected an object, found " + quoted_text(dump(*zero)));
    TRIMTAB_TRY(const std::optional<std::int64_t> stage, members_.integer("zero_optimization.stage"));
    if (!stage) return ShardedLevel::kNone;
    if (*stage >= 0 && *stage <= 3) return static_cast<ShardedLevel>(*stage);
    return members_.refusal("zero_optimization.stage", "expected 0 to 3, found " + std::to_string(*stage));
  }

  Result<bool> offloads_optimizer() {
    const std::string path = std::string(kOffload) + ".device";
    TRIMTAB_TRY(const std::string device, members_.text(path, "none"));
    TRIMTAB_TRY(const bool old, members_.flag("zero_optimization.cpu_offload", false));
    const Json* const ratio = members_.find(std::string(kOffload) + ".ratio");
    if (ratio != nullptr && *ratio != 1.0) {
      return members_.refusal(std::string(kOffload) + ".ratio",
                              "a plan offloads all optimizer states or none, found " + quoted_text(dump(*ratio)));
    }
    if (device == "none" || device == "cpu") return device == "cpu" || old;
    return members_.refusal(path, "a plan offloads to the host's memory (cpu) alone, found " + quoted_text(device));
  }

  // Of the file; where that is "auto", of the argument that transformers fills it in from.
  Result<std::optional<std::int32_t>> said(const char* path, const char* option) {
    const std::optional<std::string> given = option_value(file_.options, option);
    std::optional<std::int32_t> wanted;
    if (given) wanted = parse_number<std::int32_t>(*given);
    const std::string name = "--" + std::string(option);
    if (given && (!wanted || *wanted < 1)) {
      return bad_input(name + ": expected one positive integer, found " + quoted_text(*given));
    }
    if (members_.is_auto(path)) {
      if (wanted) return wanted;
      return members_.refusal(path, "is \"auto\", which transformers fills in from " + name +
                                        ", and that is not said; add `-- " + name + " N`");
    }
    TRIMTAB_TRY(const std::optional<std::int32_t> value, members_.count(path));
    if (!wanted || !value || *wanted == *value) return value;
    return members_.refusal(path, "is " + std::to_string(*value) + ", but " + name + " is " + std::to_string(*wanted) +
                                      ": transformers takes them only where they are the same");
  }

  Status read_batch(Plan& plan) {
    TRIMTAB_TRY(std::optional<std::int32_t> batch,
                members_.is_auto(kBatch) ? std::optional<std::int32_t>{} : members_.count(kBatch));
    TRIMTAB_TRY(std::optional<std::int32_t> micro, said(kMicro, "per_device_train_batch_size"));
    TRIMTAB_TRY(std::optional<std::int32_t> steps, said(kSteps, "gradient_accumulation_steps"));
    if (!batch && !micro) {
      return members_.refusal(kMicro, std::string("this or ") + kBatch + " is needed, and neither is there");
    }
    TRIMTAB_TRY_STATUS(find_ranks(batch, micro, steps));
    if (!micro) micro = *batch / (ranks_ * std::int64_t{steps.value_or(1)});
    const std::int64_t together = std::int64_t{*micro} * ranks_;
    if (!steps) steps = batch && together > 0 ? static_cast<std::int32_t>(*batch / together) : 1;
    const std::int64_t all = together * *steps;
    if (all > 0 && all < std::int64_t{1} << 31 && (!batch || all == *batch)) {
      plan.global_batch = static_cast<std::int32_t>(all);
      plan.microbatch = static_cast<std::int32_t>(together);
      return {};
    }
    return members_.refusal(batch ? kBatch : kMicro,
                            "must be " + std::string(kMicro) + " x " + kSteps + " x ranks, found " +
                                (batch ? std::to_string(*batch) : "nothing") + " and " + std::to_string(*micro) +
                                " x " + std::to_string(*steps) + " x " + std::to_string(ranks_));
  }

  Status find_ranks(const std::optional<std::int32_t>& batch, const std::optional<std::int32_t>& micro,
                    const std::optional<std::int32_t>& steps) {
    if (file_.ranks) {
      ranks_ = *file_.ranks;
      return {};
    }
    if (!batch || !micro || !steps) return ranks_needed("the file does not say how many replicas its batch is of");
    ranks_ = static_cast<std::int32_t>(*batch / (std::int64_t{*micro} * *steps));
    if (ranks_ > 0) return {};
    return members_.refusal(kBatch, "is less than one microbatch");
  }

  // transformers fills "auto" in with the square of the model's hidden size.
  Result<std::optional<std::int64_t>> bucket() {
    if (!members_.is_auto(kBucket)) return members_.integer(kBucket);
    for (const Operator& op : model_.operators) {
      const auto hidden = op.shape.find("hidden");
      const bool usable = hidden != op.shape.end() && hidden->second > 0 && hidden->second < (1 << 20);
      if (usable) return std::optional(hidden->second * hidden->second);
    }
    return members_.refusal(
        kBucket, "is \"auto\", the square of the hidden size, which the model does not say; write the number");
  }

  Status read_bucket(ShardedLevel level, Plan& plan) {
    if (level == ShardedLevel::kNone) return {};
    TRIMTAB_TRY(const std::optional<std::int64_t> elements, bucket());
    if (!elements) return {};
    const std::int64_t width = element_bytes(model_);
    std::int64_t bytes = 0;
    if (*elements > 0 && width > 0 && !__builtin_mul_overflow(*elements, width, &bytes)) {
      plan.target_knobs[kBucketKnob] = std::to_string(bytes);
      return {};
    }
    return members_.refusal(kBucket, "expected a positive number of elements of " + quoted_text(model_.dtype) +
                                         ", found " + std::to_string(*elements));
  }

  Status check_zero_members() {
    const std::string prefix = std::string(kZero) + ".";
    for (const std::string& path : members_.unread()) {
      if (!path.starts_with(prefix)) continue;
      const std::string_view name = std::string_view(path).substr(prefix.size());
      if (name.starts_with("offload_") || name == "reduce_bucket_size") continue;
      if (is_listed(kHowZeroRuns, name.substr(0, name.find('.')))) continue;
      return members_.refusal(path, "DeepSpeed knows no such member");
    }
    return {};
  }

  std::int32_t ranks_ = 0;
};

}  // namespace

Result<Plan> read_deepspeed_plan(PlanMembers& members, const PlanFile& file, const Model& model) {
  return Reader(members, file, model).plan();
}

}  // namespace trimtab
