#include "estimates/target.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>

#include "base/text_parts.hpp"

namespace trimtab::estimates {

namespace {

struct Entry {
  Target target;
  std::string_view name;
  TargetSpace space;
};

const std::array<Entry, 4>& entries() {
  using enum Recomputed;
  static const std::array<Entry, 4> kEntries{{
      // megatron/training/arguments.py, megatron/core/transformer/transformer_config.py (recompute_modules)
      {Target::kMegatron,
       "megatron",
       {.framework = Framework::kMegatron,
        .splits_models = true,
        .shardings = {{Sharded::kNothing}, {Sharded::kOptimizer}, {Sharded::kGradients}, {Sharded::kParameters}},
        .recomputed = {kNothing, kAttentionCore, kLayer},
        .recomputes_some_layers = true,
        .offloads_optimizer = true}},
      // torchtitan/config/configs.py, torchtitan/distributed/activation_checkpoint.py of 0.3.0
      {Target::kTorchtitan,
       "torchtitan",
       {.framework = Framework::kCompiledFsdp,
        .splits_models = true,
        .shardings = {{Sharded::kNothing}, {Sharded::kParameters, false}, {Sharded::kParameters, true}},
        .recomputed = {kNothing, kHalfOfProducts, kLayer}}},
      // client/python/trimtab/parallel.py
      {Target::kFsdp2,
       "fsdp2",
       {.framework = Framework::kFsdp,
        .shardings = {{Sharded::kNothing}, {Sharded::kParameters, false}, {Sharded::kParameters, true}},
        .recomputed = {kNothing, kLayer},
        .recomputes_some_layers = true}},
      // deepspeed/runtime/zero/config.py
      {Target::kDeepSpeed,
       "deepspeed",
       {.framework = Framework::kDeepSpeed,
        .shardings = {{Sharded::kNothing}, {Sharded::kOptimizer}, {Sharded::kGradients}, {Sharded::kParameters}},
        .recomputed = {kNothing, kLayer},
        .offloads_optimizer = true}},
  }};
  return kEntries;
}

const Entry& entry_of(Target target) {
  return *std::ranges::find(entries(), target, &Entry::target);
}

Error refused(Target target, const std::string& why) {
  return bad_input(std::string(name_of(target)) + ": " + why);
}

// megatron/core/context_parallel and torchtitan's context parallelism give each rank a part from either end.
Status check_sequence(const UniformPlan& plan, const ModelShape& shape, Target target) {
  const std::int32_t tensor = plan.sequence_parallel ? plan.tensor : 1;
  const std::int32_t parts = plan.context > 1 ? plan.context * std::lcm(2, tensor) : tensor;
  if (shape.sequence % parts == 0) return {};
  return refused(target, "tp " + std::to_string(plan.tensor) + " and cp " + std::to_string(plan.context) +
                             " need a sequence of a multiple of " + std::to_string(parts) + ", found " +
                             std::to_string(shape.sequence));
}

Status check_tensor(const UniformPlan& plan, const ModelShape& shape, Target target) {
  const auto divides = [&](std::int32_t count, const char* what) -> Status {
    if (count % plan.tensor == 0) return {};
    return refused(target, "tp " + std::to_string(plan.tensor) + " does not divide the model's " +
                               std::to_string(count) + " " + what);
  };
  TRIMTAB_TRY_STATUS(divides(shape.ffn, "columns of the mlp"));
  // Megatron-Core's ranks may share a group of queries.
  if (target == Target::kMegatron && plan.tensor % shape.kv_heads == 0) return {};
  return divides(shape.kv_heads, "heads of keys and values");
}

// The search's own documents and exporters say equal chunks.
Status check_layers(const UniformPlan& plan, const ModelShape& shape, Target target) {
  if (shape.layers % (plan.stages * plan.chunks) == 0) return {};
  return refused(target, "pp " + std::to_string(plan.stages) + " x vpp " + std::to_string(plan.chunks) +
                             " do not divide the model's " + std::to_string(shape.layers) + " layers");
}

Status check_sharding(const UniformPlan& plan, Target target) {
  const TargetSpace& space = space_of(target);
  const bool known = std::ranges::any_of(space.shardings, [&](const Sharding& one) {
    return one.level == plan.sharded && (one.level != Sharded::kParameters || one.reshard == plan.reshard);
  });
  if (!known) return refused(target, "does not shard states so");
  const bool sharded = plan.sharded != Sharded::kNothing;
  if (sharded && plan.replicas == 1) return refused(target, "states are sharded over two replicas or more");
  // Context-parallel ranks hold the same parameters, so states are sharded over them, too.
  const std::int32_t copies = plan.replicas * plan.context;
  const bool within = plan.sharded_over > 0 && plan.sharded_over < copies;
  if (plan.sharded_over > 0 && (copies % plan.sharded_over != 0 || plan.sharded_over % plan.context != 0)) {
    return refused(target, "states are sharded over " + std::to_string(plan.sharded_over) +
                               " ranks, which must be a multiple of cp and divide dp x cp, " + std::to_string(copies));
  }
  if (within && (!sharded || plan.sharded_over == plan.context))
    return refused(target, "groups of replicas need sharded states");
  if (within && target == Target::kDeepSpeed) return refused(target, "shards over all replicas");
  if (target == Target::kTorchtitan) {
    if (plan.context > 1 && !sharded) return refused(target, "context parallelism needs sharded states");
    return {};
  }
  if (target != Target::kMegatron || plan.sharded == Sharded::kNothing || plan.sharded == Sharded::kOptimizer)
    return {};
  if (plan.stages > 1) return refused(target, "gradients and parameters are sharded in one stage alone");
  if (within) return refused(target, "gradients and parameters are sharded over all replicas");
  return {};
}

Status check_recomputation(const UniformPlan& plan, const ModelShape& shape, Target target) {
  const TargetSpace& space = space_of(target);
  if (std::ranges::count(space.recomputed, plan.recomputed) == 0) return refused(target, "does not recompute that");
  if (plan.recomputed == Recomputed::kNothing || plan.recomputed_share == 1) return {};
  if (plan.recomputed != Recomputed::kLayer || !space.recomputes_some_layers) {
    return refused(target, "recomputes in all layers or in none");
  }
  const std::int32_t chunks = plan.stages * plan.chunks;
  const double layers = plan.recomputed_share * shape.layers / chunks;
  if (layers > 0 && std::abs(layers - std::round(layers)) < 1e-6) return {};
  return refused(target, "recomputes as many layers in each of the " + std::to_string(chunks) + " chunks of " +
                             std::to_string(shape.layers / chunks) + " layers: together a multiple of " +
                             std::to_string(chunks));
}

}  // namespace

std::vector<std::string_view> target_names() {
  std::vector<std::string_view> names;
  for (const Entry& entry : entries()) names.push_back(entry.name);
  return names;
}

std::string_view name_of(Target target) {
  return entry_of(target).name;
}

Result<Target> target_by_name(std::string_view name) {
  const auto found = std::ranges::find(entries(), name, &Entry::name);
  if (found != entries().end()) return found->target;
  return bad_input("expected one of " + joined(entries(), ", ", &Entry::name) + ", found '" + std::string(name) + "'");
}

const TargetSpace& space_of(Target target) {
  return entry_of(target).space;
}

UniformPlan as_run(UniformPlan plan, Target target) {
  plan.framework = space_of(target).framework;
  plan.sequence_parallel = plan.tensor > 1;
  // --overlap-p2p-communication is Megatron-LM's default of interleaved schedules; PyTorch's transfers are
  // asynchronous.
  plan.overlaps_transfers = target == Target::kMegatron ? plan.chunks > 1 : plan.stages > 1;
  plan.compiled_loss = target == Target::kTorchtitan;  // compile.components has the loss, too
  plan.overlaps_gradients = true;
  plan.overlaps_parameters = true;
  return plan;
}

Status check_target(const UniformPlan& plan, const ModelShape& shape, Target target) {
  const TargetSpace& space = space_of(target);
  if (target == Target::kTorchtitan && plan.precision == Precision::kFloat16) {
    return refused(target, "trains in bfloat16 or float32, found float16");
  }
  if (!space.splits_models && (plan.tensor > 1 || plan.stages > 1 || plan.context > 1)) {
    return refused(target, "has replicas alone, found tp " + std::to_string(plan.tensor) + ", pp " +
                               std::to_string(plan.stages) + ", cp " + std::to_string(plan.context));
  }
  TRIMTAB_TRY_STATUS(check_tensor(plan, shape, target));
  TRIMTAB_TRY_STATUS(check_layers(plan, shape, target));
  TRIMTAB_TRY_STATUS(check_sequence(plan, shape, target));
  TRIMTAB_TRY_STATUS(check_sharding(plan, target));
  TRIMTAB_TRY_STATUS(check_recomputation(plan, shape, target));
  if (target == Target::kTorchtitan && plan.stages > 1 && plan.microbatches() < plan.stages) {
    return refused(target, "PyTorch's schedules need as many microbatches as stages, " + std::to_string(plan.stages) +
                               ", found " + std::to_string(plan.microbatches()));
  }
  if (plan.offloaded_activations > 0) return refused(target, "activations are not offloaded");
  if (plan.offloaded_optimizer && !(space.offloads_optimizer && plan.sharded != Sharded::kNothing &&
                                    (target != Target::kMegatron || plan.sharded == Sharded::kOptimizer))) {
    return refused(target, "an optimizer is offloaded only where its states are sharded, and the target can");
  }
  return {};
}

}  // namespace trimtab::estimates
