#include "schema/plan_import.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/numbers.hpp"
#include "documents/json_document.hpp"
#include "schema/models/parameters.hpp"
#include "targets/megatron/megatron_arguments.hpp"
#include "targets/pipeline_layout.hpp"
#include "targets/plan_layers.hpp"
#include "targets/plan_stages.hpp"

namespace trimtab {

namespace {

constexpr std::array<std::string_view, 32> kOfPlans{"global-batch-size",
                                                    "micro-batch-size",
                                                    "tensor-model-parallel-size",
                                                    "context-parallel-size",
                                                    "pipeline-model-parallel-size",
                                                    "pipeline-model-parallel-layout",
                                                    "num-layers-per-virtual-pipeline-stage",
                                                    "num-virtual-stages-per-pipeline-rank",
                                                    "microbatch-group-size-per-virtual-pipeline-stage",
                                                    "decoder-first-pipeline-num-layers",
                                                    "decoder-last-pipeline-num-layers",
                                                    "num-distributed-optimizer-instances",
                                                    "data-parallel-sharding-strategy",
                                                    "recompute-granularity",
                                                    "recompute-method",
                                                    "recompute-num-layers",
                                                    "recompute-modules",
                                                    "ddp-bucket-size",
                                                    "optimizer-offload-fraction",
                                                    "rampup-batch-size",
                                                    "ddp-num-buckets",
                                                    "recompute-activations",
                                                    "use-distributed-optimizer",
                                                    "use-megatron-fsdp",
                                                    "use-torch-fsdp2",
                                                    "optimizer-cpu-offload",
                                                    "sequence-parallel",
                                                    "overlap-grad-reduce",
                                                    "overlap-param-gather",
                                                    "account-for-embedding-in-pipeline-split",
                                                    "account-for-loss-in-pipeline-split",
                                                    "use-tp-pp-dp-mapping"};

// What would be another plan, which none of ours says.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kNoPlans{
    {{"rampup-batch-size", "the batch grows, and a plan has one"},
     {"ddp-num-buckets", "a plan says how large buckets are; give --ddp-bucket-size"},
     {"use-torch-fsdp2", "it is not among the kinds of sharding that a plan exports for Megatron-LM"},
     {"account-for-embedding-in-pipeline-split", "give the layers of each stage by --pipeline-model-parallel-layout"},
     {"account-for-loss-in-pipeline-split", "give the layers of each stage by --pipeline-model-parallel-layout"},
     {"use-tp-pp-dp-mapping", "a plan's stages have consecutive devices"}}};

Error refusal(std::string_view option, const std::string& why) {
  return bad_input("--" + std::string(option) + ": " + why);
}

// The options that plans decide, with their values; a flag has none.
class Options {
 public:
  explicit Options(const std::vector<std::string>& words) {
    for (MegatronArgument& argument : megatron_arguments(words)) {
      if (std::ranges::find(kOfPlans, argument.name) != kOfPlans.end())
        values_[argument.name] = std::move(argument.values);
    }
  }

  [[nodiscard]] bool has(std::string_view name) const { return values_.find(name) != values_.end(); }

  [[nodiscard]] std::string text(std::string_view name, std::string_view fallback) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return std::string(fallback);
    return found->second.empty() ? "" : found->second.front();
  }

  [[nodiscard]] std::vector<std::string> words(std::string_view name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::vector<std::string>{} : found->second;
  }

  // 0: it is not there.
  [[nodiscard]] Result<std::int32_t> number(std::string_view name, std::int32_t fallback = 0) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return fallback;
    const std::string text = found->second.size() == 1 ? found->second.front() : "";
    const auto value = parse_number<std::int32_t>(text);
    if (value && *value > 0) return *value;
    return refusal(name, "expected one positive integer, found " + quoted_text(text));
  }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

Status check_sayable(const Options& options) {
  for (const auto& [name, why] : kNoPlans) {
    if (options.has(name)) return refusal(name, std::string(why));
  }
  const std::string fraction = options.text("optimizer-offload-fraction", "1");
  const auto share = parse_number<double>(fraction);
  if (share && *share == 1) return {};
  return refusal("optimizer-offload-fraction",
                 "a plan offloads all optimizer states or none, found " + quoted_text(fraction));
}

// How ranks are shared out.
struct Split {
  std::int32_t tp = 1;
  std::int32_t cp = 1;
  std::int32_t pp = 1;
  std::int32_t dp = 1;
};

Result<Split> split_of(const Options& options, std::int32_t world_size) {
  Split split;
  TRIMTAB_TRY(split.tp, options.number("tensor-model-parallel-size", 1));
  TRIMTAB_TRY(split.cp, options.number("context-parallel-size", 1));
  TRIMTAB_TRY(split.pp, options.number("pipeline-model-parallel-size", 1));
  const std::int64_t model = std::int64_t{split.tp} * split.cp * split.pp;
  if (world_size % model == 0) {
    split.dp = static_cast<std::int32_t>(world_size / model);
    return split;
  }
  return refusal("tensor-model-parallel-size", "tensor-, context- and pipeline-parallel sizes " +
                                                   std::to_string(split.tp) + ", " + std::to_string(split.cp) +
                                                   " and " + std::to_string(split.pp) + " must divide the " +
                                                   std::to_string(world_size) + " ranks");
}

Error uneven(std::string_view option, std::int32_t layers, std::int32_t parts) {
  return refusal(option, "the model's " + std::to_string(layers) + " layers must divide by " + std::to_string(parts));
}

// Where the first or the last stage has layers of its own number, the others share the rest.
Result<std::vector<std::int32_t>> layers_with_ends(const Options& options, std::int32_t layers, std::int32_t stages) {
  constexpr std::string_view kFirst = "decoder-first-pipeline-num-layers";
  constexpr std::string_view kLast = "decoder-last-pipeline-num-layers";
  TRIMTAB_TRY(const std::int32_t first, options.number(kFirst));
  TRIMTAB_TRY(const std::int32_t last, options.number(kLast));
  const std::int32_t others = stages - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
  const std::int32_t rest = layers - first - last;
  if (others < 0 || rest < 0 || (others == 0 ? rest != 0 : rest % others != 0)) {
    return refusal(first > 0 ? kFirst : kLast,
                   "what it leaves of " + std::to_string(layers) + " layers must divide among the other stages");
  }
  std::vector<std::int32_t> counts(static_cast<std::size_t>(stages), others > 0 ? rest / others : 0);
  if (first > 0) counts.front() = first;
  if (last > 0) counts.back() = last;
  return counts;
}

// Layers of each stage, in the order of the layers; several stages of the same devices interleave.
Result<std::vector<std::int32_t>> layers_by_stage(const Options& options, std::int32_t layers, std::int32_t pp) {
  constexpr std::string_view kLayout = "pipeline-model-parallel-layout";
  constexpr std::string_view kPerStage = "num-layers-per-virtual-pipeline-stage";
  constexpr std::string_view kStages = "num-virtual-stages-per-pipeline-rank";
  if (options.has(kLayout)) {
    auto counts = layers_of_layout(options.text(kLayout, ""));
    if (!counts.ok()) return refusal(kLayout, counts.error().message);
    if (std::ssize(*counts) % pp != 0) {
      return refusal(kLayout, "its " + std::to_string(counts->size()) + " stages must divide by the pipeline's " +
                                  std::to_string(pp));
    }
    std::int32_t sum = 0;
    for (const std::int32_t count : *counts) sum += count;
    if (sum == layers) return counts;
    return refusal(kLayout, "expected " + std::to_string(layers) + " layers, found " + std::to_string(sum));
  }
  if (!options.has(kPerStage) && !options.has(kStages)) {
    if (options.has("decoder-first-pipeline-num-layers") || options.has("decoder-last-pipeline-num-layers")) {
      return layers_with_ends(options, layers, pp);
    }
    if (layers % pp != 0) return uneven("pipeline-model-parallel-size", layers, pp);
    return std::vector<std::int32_t>(static_cast<std::size_t>(pp), layers / pp);
  }
  TRIMTAB_TRY(const std::int32_t per_stage, options.number(kPerStage));
  TRIMTAB_TRY(const std::int32_t rounds, options.number(kStages, 1));
  const std::string_view option = per_stage > 0 ? kPerStage : kStages;
  const std::int64_t stages = per_stage > 0 ? layers / per_stage : std::int64_t{rounds} * pp;
  if (stages < 1 || stages > layers || layers % stages != 0 || stages % pp != 0) {
    return refusal(option, "cannot share " + std::to_string(layers) + " layers among " + std::to_string(pp) +
                               " pipeline ranks in equal parts");
  }
  return std::vector<std::int32_t>(static_cast<std::size_t>(stages), static_cast<std::int32_t>(layers / stages));
}

struct Sharding {
  ShardedLevel level = ShardedLevel::kNone;
  std::int32_t degree = 0;
};

Result<Sharding> said_sharding(const Options& options, std::int32_t dp) {
  constexpr std::string_view kStrategy = "data-parallel-sharding-strategy";
  constexpr std::string_view kInstances = "num-distributed-optimizer-instances";
  TRIMTAB_TRY(const std::int32_t instances, options.number(kInstances, 1));
  if (options.has("use-megatron-fsdp")) {
    const std::string strategy = options.text(kStrategy, "optim_grads_params");
    if (instances > 1) return refusal(kInstances, "with --use-megatron-fsdp a plan cannot say it");
    if (strategy == "no_shard") return Sharding{};
    if (strategy == "optim") return Sharding{ShardedLevel::kOptimizer};
    if (strategy == "optim_grads") return Sharding{ShardedLevel::kGradients};
    if (strategy == "optim_grads_params") return Sharding{ShardedLevel::kParameters};
    return refusal(kStrategy,
                   "expected one of no_shard, optim, optim_grads, optim_grads_params, found " + quoted_text(strategy));
  }
  if (!options.has("use-distributed-optimizer")) return Sharding{};
  if (dp % instances != 0) {
    return refusal(kInstances, "must divide the " + std::to_string(dp) + " data-parallel ranks, found " +
                                   std::to_string(instances));
  }
  return Sharding{ShardedLevel::kOptimizer, instances > 1 ? dp / instances : 0};
}

Result<Sharding> sharding_of(const Options& options, const Split& split) {
  TRIMTAB_TRY(const Sharding said, said_sharding(options, split.dp));
  if (split.dp > 1 || said.level == ShardedLevel::kNone) return said;
  if (split.cp == 1) return Sharding{};
  return refusal("context-parallel-size", "one replica shards its states over " + std::to_string(split.cp) +
                                              " context-parallel ranks, and a plan shards over replicas alone");
}

// What is recomputed of a stage's `layers`.
struct Recompute {
  std::int32_t first = 0;  // so many layers, from the stage's first on
  bool mlp = false;        // the mlp of each
};

Result<Recompute> recompute_of(const Options& options) {
  constexpr std::int32_t kEach = 1 << 30;
  constexpr std::string_view kModules = "recompute-modules";
  const std::string kind =
      options.text("recompute-granularity", options.has("recompute-activations") ? "selective" : "");
  if (kind.empty()) return Recompute{};
  if (kind == "selective") {
    if (options.words(kModules) == std::vector<std::string>{"mlp"}) return Recompute{0, true};
    return refusal(options.has(kModules) ? kModules : "recompute-granularity",
                   "of selective recomputation a plan says that of the mlp alone (--recompute-modules mlp)");
  }
  if (kind != "full") return refusal("recompute-granularity", "expected full or selective, found " + quoted_text(kind));
  const std::string method = options.text("recompute-method", "");
  TRIMTAB_TRY(const std::int32_t layers, options.number("recompute-num-layers", method == "uniform" ? 1 : 0));
  if (method == "block" && layers > 0) return Recompute{layers};
  if (method == "uniform" && layers == 1) return Recompute{kEach};
  if (method == "uniform") {
    return refusal("recompute-num-layers",
                   "a plan says uniform recomputation of one layer at a time alone, found " + std::to_string(layers));
  }
  return refusal("recompute-method", "full recomputation needs uniform, or block with --recompute-num-layers, found " +
                                         quoted_text(method));
}

// Whether each operator is recomputed.
std::vector<bool> recomputed_operators(const Model& model, const ModelLayers& parts,
                                       const std::vector<std::int32_t>& counts, const Recompute& recompute) {
  std::vector<bool> recomputed(model.operators.size(), false);
  std::size_t layer = 0;
  for (const std::int32_t count : counts) {
    for (std::int32_t i = 0; i < count; ++i, ++layer) {
      for (std::int32_t op = parts.layers[layer].begin; op < parts.layers[layer].end; ++op) {
        const auto at = static_cast<std::size_t>(op);
        recomputed[at] = i < recompute.first || (recompute.mlp && is_mlp(model.operators[at]));
      }
    }
  }
  return recomputed;
}

Status read_batch(const Options& options, const Split& split, Plan& plan) {
  TRIMTAB_TRY(const std::int32_t micro, options.number("micro-batch-size"));
  if (micro == 0) return refusal("micro-batch-size", "expected one positive integer, found nothing");
  const std::int64_t microbatch = std::int64_t{micro} * split.dp;
  TRIMTAB_TRY(
      plan.global_batch,
      options.number("global-batch-size", static_cast<std::int32_t>(std::min<std::int64_t>(microbatch, 1 << 30))));
  if (plan.global_batch % microbatch == 0) {
    plan.microbatch = static_cast<std::int32_t>(microbatch);
    return {};
  }
  return refusal("global-batch-size", "must be a multiple of micro-batch-size times data-parallel ranks, " +
                                          std::to_string(micro) + " x " + std::to_string(split.dp) + ", found " +
                                          std::to_string(plan.global_batch));
}

// Buckets: Megatron-LM's own size where gradients are reduced while the backward pass runs and none is said.
Status read_knobs(const Options& options, const Split& split, const Model& model, Plan& plan) {
  constexpr std::int64_t kLeastElements = 40'000'000;
  constexpr std::int64_t kElementsPerRank = 1'000'000;
  constexpr std::string_view kBucket = "ddp-bucket-size";
  if (options.has("sequence-parallel") && split.tp > 1) plan.target_knobs["sequence_parallel"] = "true";
  if (!options.has("overlap-grad-reduce")) {
    if (!options.has("overlap-param-gather")) return {};
    return refusal("overlap-param-gather", "Megatron-LM wants --overlap-grad-reduce beside it");
  }
  TRIMTAB_TRY(std::int64_t elements, options.number(kBucket));
  if (elements == 0) elements = std::max(kLeastElements, kElementsPerRank * split.dp * split.cp);
  plan.target_knobs[kBucketKnob] = std::to_string(elements * element_bytes(model));
  const bool alone = split.dp == 1 && options.has("use-distributed-optimizer");
  if (options.has("overlap-param-gather") && !alone) plan.target_knobs["overlap_parameter_gather"] = "true";
  return {};
}

}  // namespace

std::span<const std::string_view> megatron_plan_options() {
  return kOfPlans;
}

Result<Plan> plan_from_megatron(const std::vector<std::string>& arguments, const Model& model,
                                std::int32_t world_size) {
  TRIMTAB_TRY_STATUS(check_priced(model));
  const Options options(arguments);
  TRIMTAB_TRY_STATUS(check_sayable(options));
  TRIMTAB_TRY(const Split split, split_of(options, world_size));
  TRIMTAB_TRY(const ModelLayers parts, layers_of(model));
  TRIMTAB_TRY(const std::vector<std::int32_t> counts,
              layers_by_stage(options, static_cast<std::int32_t>(parts.layers.size()), split.pp));
  TRIMTAB_TRY(const Sharding sharding, sharding_of(options, split));
  TRIMTAB_TRY(const Recompute recompute, recompute_of(options));
  Plan plan;
  plan.model = model.name;
  TRIMTAB_TRY_STATUS(read_batch(options, split, plan));
  if (std::ssize(counts) > split.pp) {
    constexpr std::string_view kTurn = "microbatch-group-size-per-virtual-pipeline-stage";
    TRIMTAB_TRY(const std::int32_t turn, options.number(kTurn, split.pp));
    if (turn != split.pp) {
      return refusal(kTurn,
                     "a plan's interleaved stages take as many microbatches in turn as the pipeline has ranks, " +
                         std::to_string(split.pp) + ", found " + std::to_string(turn));
    }
    plan.schedule.kind = ScheduleKind::kInterleaved;
  }
  Segment like;
  like.dp = split.dp;
  like.tp = split.tp;
  like.cp = split.cp;
  like.sharded = sharding.level;
  like.sharded_degree = sharding.degree;
  like.switches.offload_optimizer = options.has("optimizer-cpu-offload");
  const std::vector<bool> recomputed = recomputed_operators(model, parts, counts, recompute);
  // The pipeline's stride is the largest: megatron/core/parallel_state.py, order "tp-cp-ep-dp-pp".
  TRIMTAB_TRY(plan.stages, plan_stages(
                               model, parts, {counts, split.pp, split.tp * split.cp * split.dp},
                               [&](std::int32_t op) {
                                 return OperatorPlan{like, recomputed[static_cast<std::size_t>(op)]};
                               },
                               "--pipeline-model-parallel-size"));
  TRIMTAB_TRY_STATUS(read_knobs(options, split, model, plan));
  TRIMTAB_TRY_STATUS(check_import(plan, model, "megatron", "Megatron-LM"));
  return plan;
}

}  // namespace trimtab
