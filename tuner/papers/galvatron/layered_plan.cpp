#include "papers/galvatron/layered_plan.hpp"

#include <cmath>

#include "plan/plan_space.hpp"

namespace trimtab::tuner::galvatron {
namespace {

LayerStrategy strategy_of(const Segment& segment, bool recompute) {
  LayerStrategy strategy;
  strategy.recompute = recompute;
  const bool shards = segment.sharded == ShardedLevel::kParameters && segment.dp > 1;
  const std::int32_t sharded = !shards ? 1 : segment.sharded_degree > 0 ? segment.sharded_degree : segment.dp;
  const TreeLevel ranks{Dimension::kTensor, segment.tp};
  const TreeLevel shares{Dimension::kSharded, sharded};
  const TreeLevel replicas{Dimension::kData, segment.dp / sharded};
  const std::array<TreeLevel, 3> order =
      segment.tp_consecutive ? std::array{replicas, shares, ranks} : std::array{ranks, replicas, shares};
  for (const TreeLevel& level : order) {
    if (level.degree > 1) strategy.levels[static_cast<std::size_t>(strategy.depth++)] = level;
  }
  return strategy;
}

bool contains(const std::vector<Range>& ranges, std::int32_t index) {
  return std::any_of(ranges.begin(), ranges.end(), [index](const Range& range) { return range.contains(index); });
}

Segment segment_of(const LayerStrategy& strategy, Range operators, bool plain_replicas, Variant variant) {
  Segment segment;
  segment.operators = operators;
  segment.dp = strategy.replicas();
  segment.tp = strategy.tp();
  segment.tp_consecutive = strategy.tp_consecutive() || strategy.replicas() == 1;
  if (strategy.sharded() > 1) {
    segment.sharded = ShardedLevel::kParameters;
    if (strategy.dp() > 1) segment.sharded_degree = strategy.sharded();
  } else if (variant == Variant::kV2 && strategy.dp() > 1 && !plain_replicas) {
    segment.sharded = ShardedLevel::kGradients;
  }
  return segment;
}

Stage stage_of(const StageLayers& layers, std::int32_t first_device, std::int32_t devices, bool plain_replicas,
               Variant variant) {
  Stage stage;
  for (std::int32_t d = 0; d < devices; ++d) stage.devices.push_back(first_device + d);
  const LayerStrategy* before = nullptr;
  std::int32_t index = layers.operators.begin;
  for (const LayerStrategy& strategy : layers.strategies) {
    if (before == nullptr || !before->same_split(strategy)) {
      stage.segments.push_back(segment_of(strategy, {index, index}, plain_replicas, variant));
    }
    Segment& segment = stage.segments.back();
    ++segment.operators.end;
    if (strategy.recompute) segment.recompute.push_back({index, index + 1});
    before = &strategy;
    ++index;
  }
  for (Segment& segment : stage.segments) segment.recompute = normalized(std::move(segment.recompute));
  return stage;
}

// The whole count nearest to the rule's that every layer's replicas can share, by its microbatch.
std::int32_t nearest_microbatch(const LayeredPlan& layers, const Model& model, double count) {
  std::int32_t best = layers.batch;
  for (const std::int32_t microbatch : allowed_microbatches(model)) {
    bool whole = true;
    for (const StageLayers& stage : layers.stages) {
      for (const LayerStrategy& strategy : stage.strategies) whole = whole && microbatch % strategy.replicas() == 0;
    }
    const auto distance = [&](std::int32_t size) {
      return std::fabs(static_cast<double>(layers.batch) / size - count);
    };
    if (whole && distance(microbatch) < distance(best)) best = microbatch;
  }
  return best;
}

}  // namespace

LayeredPlan layered(const Plan& plan) {
  LayeredPlan layers;
  layers.batch = plan.global_batch;
  layers.microbatches = plan.microbatches();
  for (const Stage& stage : plan.stages) {
    StageLayers of;
    of.operators = stage.operators();
    for (const Segment& segment : stage.segments) {
      if (segment.dp > 1 && segment.sharded == ShardedLevel::kNone) layers.plain_replicas = true;
      for (std::int32_t i = segment.operators.begin; i < segment.operators.end; ++i) {
        of.strategies.push_back(strategy_of(segment, contains(segment.recompute, i)));
      }
    }
    layers.stages.push_back(std::move(of));
  }
  return layers;
}

Plan plan_of(const LayeredPlan& layers, const Model& model, const Formulas& formulas) {
  Plan plan;
  plan.model = model.name;
  plan.global_batch = layers.batch;
  const auto stages = static_cast<std::int32_t>(layers.stages.size());
  plan.microbatch = layers.batch / layers.microbatches;
  double count = 0;
  for (const StageLayers& stage : layers.stages) {
    for (const LayerStrategy& strategy : stage.strategies) {
      count = std::max(count, formulas.own_microbatches(strategy, layers.batch, stages).value_or(0));
    }
  }
  if (count > 0) plan.microbatch = nearest_microbatch(layers, model, std::max(1.0, std::floor(count)));
  const std::int32_t devices = formulas.profile().devices / stages;
  std::int32_t first = 0;
  for (const StageLayers& stage : layers.stages) {
    plan.stages.push_back(stage_of(stage, first, devices, layers.plain_replicas, formulas.variant()));
    first += devices;
  }
  return plan;
}

double LayeredPrice::excess_mib(double limit_mib) const {
  double most = 0;
  for (const StagePart& stage : stages) most = std::max(most, stage.memory_mib());
  constexpr double kRounding = 1e-6;  // of bytes to MiB and back
  return most > limit_mib + kRounding ? most - limit_mib : 0;
}

LayeredPrice price(const Formulas& formulas, const LayeredPlan& plan) {
  LayeredPrice price;
  const Profile& profile = formulas.profile();
  price.withheld_mib = profile.memory_limit_mib - formulas.limit_mib();
  std::vector<StageSum> sums;
  Situation at{plan.batch, plan.microbatches, static_cast<std::int32_t>(plan.stages.size()), 0};
  for (const StageLayers& layers : plan.stages) {
    StagePart part;
    double highest = 0;  // of kept activations and a layer's peak, over the stage
    bool recomputes = false;
    for (std::size_t i = 0; i < layers.strategies.size(); ++i) {
      const LayerStrategy& strategy = layers.strategies[i];
      const std::int32_t type = profile.type_of[static_cast<std::size_t>(layers.operators.begin) + i];
      const LayerCost cost = formulas.layer(type, strategy, at, plan.plain_replicas);
      if (i > 0) part.change_ms += formulas.layout_change_ms(type, layers.strategies[i - 1], strategy, at);
      part.forward_ms += cost.forward_ms;
      part.backward_ms += cost.backward_ms;
      part.recompute_ms += cost.recompute_ms;
      part.exposed_ms += cost.exposed_ms;
      part.sum.plain_ms += cost.plain_ms;
      part.sum.sync_ms += cost.sync_ms;
      part.states_mib += cost.states_mib;
      part.kept_mib += cost.kept_mib;
      highest = std::max(highest, part.kept_mib + cost.peak_mib);
      recomputes = recomputes || strategy.recompute;
    }
    part.sum.plain_ms += part.change_ms;
    part.sum.sync_ms += part.change_ms;
    part.peak_mib = highest - part.kept_mib;
    if (recomputes) part.peak_mib += formulas.recompute_reserve_mib(at);
    part.reserved_mib = formulas.reserved_mib(at, plan.plain_replicas) + price.withheld_mib;
    sums.push_back(part.sum);
    price.stages.push_back(part);
    ++at.stage;
  }
  price.iteration_ms = formulas.iteration_ms(sums, plan.microbatches);
  return price;
}

}  // namespace trimtab::tuner::galvatron
