#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.hpp"
#include "estimates/told_plan.hpp"

namespace trimtab::estimates {

namespace {

ShardedLevel level_of(const UniformPlan& plan) {
  switch (plan.sharded) {
    case Sharded::kNothing:
      return ShardedLevel::kNone;
    case Sharded::kOptimizer:
      return ShardedLevel::kOptimizer;
    case Sharded::kGradients:
      return ShardedLevel::kGradients;
    case Sharded::kParameters:
      break;
  }
  // Kept from the forward to the backward pass: what exporters call gradients (SHARD_GRAD_OP, reshard "never").
  return plan.reshard ? ShardedLevel::kParameters : ShardedLevel::kGradients;
}

// Megatron-LM's own size of buckets, in bytes of 16-bit elements.
std::int64_t bucket_bytes(const UniformPlan& plan) {
  constexpr std::int64_t kLeastElements = 40'000'000;
  constexpr std::int64_t kElementsPerRank = 1'000'000;
  return 2 * std::max(kLeastElements, kElementsPerRank * plan.replicas * plan.context);
}

Range operators_of(const Model& model, const ModelLayers& parts, std::int32_t first, std::int32_t count) {
  const auto layers = static_cast<std::int32_t>(parts.layers.size());
  Range range{parts.layers[static_cast<std::size_t>(first)].begin, 0};
  range.end = first + count == layers ? static_cast<std::int32_t>(model.operators.size())
                                      : parts.layers[static_cast<std::size_t>(first + count)].begin;
  if (first == 0) range.begin = 0;
  return range;
}

// REQUIRES: chunks that divide the layers.
std::vector<Stage> stages_of(const UniformPlan& plan, const Model& model, const ModelLayers& parts) {
  const auto layers = static_cast<std::int32_t>(parts.layers.size());
  const std::int32_t each = layers / (plan.stages * plan.chunks);
  const auto again =
      plan.recomputed == Recomputed::kLayer ? static_cast<std::int32_t>(std::lround(plan.recomputed_share * each)) : 0;
  const std::int32_t ranks = plan.tensor * plan.context * plan.replicas;
  std::vector<Stage> stages;
  for (std::int32_t chunk = 0; chunk < plan.stages * plan.chunks; ++chunk) {
    Stage stage;
    stage.devices.resize(static_cast<std::size_t>(ranks));
    std::iota(stage.devices.begin(), stage.devices.end(), chunk % plan.stages * ranks);
    Segment segment;
    segment.operators = operators_of(model, parts, chunk * each, each);
    segment.dp = plan.replicas;
    segment.tp = plan.tensor;
    segment.cp = plan.context;
    segment.sharded = level_of(plan);
    segment.sharded_degree = plan.sharded_over / plan.context;
    segment.switches.offload_optimizer = plan.offloaded_optimizer;
    for (std::int32_t layer = chunk * each; layer < chunk * each + again; ++layer) {
      segment.recompute.push_back(parts.layers[static_cast<std::size_t>(layer)]);
    }
    segment.recompute = normalized(std::move(segment.recompute));
    stage.segments.push_back(std::move(segment));
    stages.push_back(std::move(stage));
  }
  return stages;
}

Error uneven(const std::string& why) {
  return bad_input("this plan is not uniform: " + why +
                   ". Estimates price plans in which all stages and layers are run in one way; with measured costs "
                   "(--costs) any plan is priced");
}

// What two stages of a uniform plan have in common.
bool alike(Segment one, Segment other) {
  one.operators = other.operators = {};
  one.recompute.clear();
  other.recompute.clear();
  return one == other;
}

std::int32_t recomputed_layers(const Segment& segment, const ModelLayers& parts) {
  std::int32_t count = 0;
  for (const Range& layer : parts.layers) {
    count += std::ranges::any_of(
        segment.recompute, [&](const Range& range) { return range.begin <= layer.begin && layer.end <= range.end; });
  }
  return count;
}

Status check_even(const Plan& plan, const ModelLayers& parts) {
  const Segment& first = plan.stages.front().segments.front();
  std::int32_t layers = -1;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    const std::string name = "stage " + std::to_string(i);
    if (stage.segments.size() != 1) return uneven(name + " has several segments");
    const Segment& segment = stage.segments.front();
    if (!alike(segment, first)) return uneven(name + " is split, sharded or switched in another way than stage 0");
    const auto own = static_cast<std::int32_t>(std::ranges::count_if(
        parts.layers, [&](const Range& layer) { return segment.operators.contains(layer.begin); }));
    if (layers >= 0 && own != layers)
      return uneven(name + " has " + std::to_string(own) + " layers, stage 0 has " + std::to_string(layers));
    layers = own;
    std::int32_t recomputed = 0;
    for (const Range& range : segment.recompute) recomputed += range.size();
    const std::int32_t whole = recomputed_layers(segment, parts);
    const std::int32_t size = parts.layers.front().size();
    if (recomputed != whole * size && recomputed != segment.operators.size()) {
      return uneven(name + " recomputes a part of a layer");
    }
    if (whole != recomputed_layers(first, parts)) return uneven(name + " recomputes another number of layers");
  }
  return {};
}

}  // namespace

Result<Plan> product_plan(const UniformPlan& plan, const Model& model, Target target) {
  if (plan.recomputed != Recomputed::kNothing && plan.recomputed != Recomputed::kLayer) {
    return bad_input(
        "plan.json says of whole operators whether they are recomputed; this plan recomputes parts of them");
  }
  if (plan.offloaded_activations > 0) return bad_input("plan.json says offloaded activations by operators alone");
  TRIMTAB_TRY(const ModelLayers parts, layers_of(model));
  if (std::ssize(parts.layers) % (plan.stages * plan.chunks) != 0) {
    return bad_input("plan: pp x vpp must divide the model's " + std::to_string(parts.layers.size()) + " layers");
  }
  Plan product;
  product.model = model.name;
  product.global_batch = plan.global_batch;
  product.microbatch = plan.microbatch * plan.replicas;
  if (plan.chunks > 1) product.schedule.kind = ScheduleKind::kInterleaved;
  product.stages = stages_of(plan, model, parts);
  if (plan.tensor > 1 && plan.sequence_parallel) product.target_knobs["sequence_parallel"] = "true";
  if (target != Target::kMegatron || !plan.overlaps_gradients || plan.replicas * plan.context == 1) return product;
  product.target_knobs["bucket_bytes"] = std::to_string(bucket_bytes(plan));
  if (plan.overlaps_parameters && plan.sharded == Sharded::kOptimizer) {
    product.target_knobs["overlap_parameter_gather"] = "true";
  }
  return product;
}

Result<UniformPlan> uniform_plan(const Plan& plan, const Model& model, Target target) {
  TRIMTAB_TRY(const ModelLayers parts, layers_of(model));
  if (plan.schedule.kind == ScheduleKind::kGPipe || plan.schedule.sliced_microbatches > 0 ||
      plan.schedule.sub_batches > 1) {
    return uneven("its schedule is neither 1F1B nor interleaved 1F1B");
  }
  TRIMTAB_TRY_STATUS(check_even(plan, parts));
  const Segment& first = plan.stages.front().segments.front();
  UniformPlan uniform;
  uniform.replicas = first.dp;
  uniform.tensor = first.tp;
  uniform.context = first.cp;
  const auto chunks = static_cast<std::int32_t>(plan.stages.size());
  uniform.stages = chunks;
  for (std::int32_t i = 1; i < chunks && uniform.stages == chunks; ++i) {
    if (plan.stages[static_cast<std::size_t>(i)].devices == plan.stages.front().devices) uniform.stages = i;
  }
  if (chunks % uniform.stages != 0) return uneven("its devices have different numbers of stages");
  uniform.chunks = chunks / uniform.stages;
  uniform.global_batch = plan.global_batch;
  if (plan.microbatch % first.dp != 0) return uneven("its replicas take different numbers of samples");
  uniform.microbatch = plan.microbatch / first.dp;
  const bool keeps = target == Target::kTorchtitan || target == Target::kFsdp2;
  uniform.sharded = static_cast<Sharded>(first.sharded);
  if (keeps && first.sharded == ShardedLevel::kGradients) {
    uniform.sharded = Sharded::kParameters;
    uniform.reshard = false;
  }
  const bool within =
      first.sharded != ShardedLevel::kNone && first.sharded_degree > 0 && first.sharded_degree < first.dp;
  if (within) uniform.sharded_over = first.sharded_degree * first.cp;
  if (const std::int32_t again = recomputed_layers(first, parts); again > 0) {
    uniform.recomputed = Recomputed::kLayer;
    uniform.recomputed_share = static_cast<double>(again) * chunks / static_cast<double>(parts.layers.size());
  }
  uniform.offloaded_optimizer = first.switches.offload_optimizer;
  return as_run(uniform, target);
}

}  // namespace trimtab::estimates
