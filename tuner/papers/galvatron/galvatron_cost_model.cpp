#include "papers/galvatron_cost_model.hpp"

#include <algorithm>
#include <cmath>

#include "base/units.hpp"
#include "papers/galvatron/galvatron_evaluator.hpp"
#include "papers/galvatron/layered_plan.hpp"
#include "plan/plan_rules.hpp"

namespace trimtab::tuner {
namespace {

using galvatron::Formulas;
using galvatron::kMiB;
using galvatron::LayeredPlan;
using galvatron::LayeredPrice;
using galvatron::LayerStrategy;
using galvatron::StagePart;
using galvatron::Variant;

Bytes bytes_of(double mib) {
  return static_cast<Bytes>(std::llround(mib * kMiB));
}

StagePrediction predict_stage(const StagePart& part, Variant variant, std::int32_t microbatches, double iteration_ms) {
  // v1 knows whole steps alone; a document's times are of one microbatch.
  const double share = variant == Variant::kV1 ? 1.0 / microbatches : 1;
  StagePrediction stage;
  stage.forward_ms = part.forward_ms * share;
  stage.backward_ms = part.backward_ms * share;
  stage.recompute_ms = part.recompute_ms * share;
  stage.exposed_communication_ms = (part.exposed_ms + part.change_ms) * share;
  stage.gradient_sync_ms = part.sync_ms();
  const double busy = part.sum.plain_ms * share * microbatches + stage.gradient_sync_ms;
  stage.bubble_ms = std::max(0.0, iteration_ms - busy);
  stage.memory_bytes = bytes_of(part.memory_mib());
  stage.memory.states = bytes_of(part.states_mib);
  stage.memory.activations = bytes_of(part.kept_mib);
  stage.memory.recompute_peak = bytes_of(part.peak_mib);
  stage.memory.reserved = bytes_of(part.reserved_mib);
  return stage;
}

void name_segment(const Segment& segment, Variant variant, const std::string& at, std::vector<std::string>& names) {
  if (segment.cp > 1) names.push_back(at + ".cp");
  if (segment.switches != Switches{}) names.push_back(at + ".switches");
  if (!segment.alternate_dimension.empty()) names.push_back(at + ".alternate_dimension");
  if (variant == Variant::kV1 && !segment.recompute.empty()) names.push_back(at + ".recompute (v1 knows none)");
  const bool mixed = segment.sharded_degree > 0 && segment.sharded_degree != segment.dp;
  if (mixed && variant != Variant::kPaper)
    names.push_back(at + ".sharded_degree (replicas of shards: galvatron:paper)");
  const bool gradients = segment.sharded == ShardedLevel::kGradients && variant != Variant::kV2;
  if (segment.sharded == ShardedLevel::kOptimizer || gradients) {
    names.push_back(at + ".sharded (" + (gradients ? "gradients: galvatron:v2" : "optimizer: native") + ")");
  }
}

bool even_and_ordered(const Plan& plan, std::int32_t devices) {
  const auto stages = static_cast<std::int32_t>(plan.stages.size());
  if (stages == 0 || devices % stages != 0 || (stages & (stages - 1)) != 0) return false;
  std::int32_t next = 0;
  for (const Stage& stage : plan.stages) {
    if (static_cast<std::int32_t>(stage.devices.size()) != devices / stages) return false;
    for (const std::int32_t device : stage.devices) {
      if (device != next++) return false;
    }
  }
  return true;
}

std::string excess_text(std::size_t stage, double memory_mib, double limit_mib) {
  return "stage " + std::to_string(stage) + " needs " + format_bytes(bytes_of(memory_mib)) + ", the memory limit is " +
         format_bytes(bytes_of(limit_mib)) + ", " + format_bytes(bytes_of(memory_mib - limit_mib)) +
         " too much: shard its states, recompute or split more of its layers, or give it fewer of them";
}

std::size_t fullest_of(const LayeredPrice& priced) {
  const auto most = std::max_element(priced.stages.begin(), priced.stages.end(),
                                     [](const auto& a, const auto& b) { return a.memory_mib() < b.memory_mib(); });
  return static_cast<std::size_t>(most - priced.stages.begin());
}

void judge(const LayeredPrice& priced, const Formulas& formulas, Prediction& prediction) {
  const auto slowest = std::max_element(priced.stages.begin(), priced.stages.end(),
                                        [](const auto& a, const auto& b) { return a.sum.plain_ms < b.sum.plain_ms; });
  const double waiting = slowest->exposed_ms + slowest->change_ms;
  prediction.bottleneck = {static_cast<std::int32_t>(slowest - priced.stages.begin()),
                           waiting > slowest->sum.plain_ms / 2 ? "communication" : "computation"};
  const double limit = formulas.profile().memory_limit_mib;
  if (priced.excess_mib(limit) <= 0) return;
  const std::size_t fullest = fullest_of(priced);
  prediction.feasible = false;
  prediction.bottleneck = {static_cast<std::int32_t>(fullest), "memory"};
  prediction.infeasible_reason = excess_text(fullest, priced.stages[fullest].memory_mib(), limit);
}

}  // namespace

Result<GalvatronCostModel> GalvatronCostModel::build(Variant variant, const Model& model, const Cluster& cluster,
                                                     const std::vector<Cost>& costs) {
  TRIMTAB_TRY(galvatron::Profile profile, galvatron::profile_from_costs(model, cluster, costs));
  const bool published = profile.devices == 8 || (profile.devices == 16 && cluster.nodes.size() == 2);
  if (variant == Variant::kV1 && (!published || profile.half_precision)) {
    return bad_input("galvatron:v1 has formulas for float32 on one node of 8 devices or two of 8, found " +
                     model.dtype + " on " + std::to_string(profile.devices) + " devices of " +
                     std::to_string(cluster.nodes.size()) + " nodes; use galvatron:v2 or galvatron:paper");
  }
  GalvatronCostModel built;
  built.model_ = std::make_shared<const Model>(model);
  built.cluster_ = std::make_shared<const Cluster>(cluster);
  built.costs_ = std::make_shared<const std::vector<Cost>>(costs);
  built.profile_ = std::make_shared<const galvatron::Profile>(std::move(profile));
  built.formulas_ = std::make_shared<const Formulas>(variant, *built.profile_);
  return built;
}

std::string_view GalvatronCostModel::name() const {
  constexpr std::string_view kNames[] = {"galvatron:v1", "galvatron:v2", "galvatron:paper"};
  return kNames[static_cast<std::size_t>(formulas_->variant())];
}

std::unique_ptr<CostModel> GalvatronCostModel::on(const Cluster& cluster) const {
  Result<GalvatronCostModel> built = build(formulas_->variant(), *model_, cluster, *costs_);
  if (!built.ok()) return nullptr;
  return std::make_unique<GalvatronCostModel>(std::move(built).value());
}

std::vector<std::string> GalvatronCostModel::missing(const Plan& plan) const {
  std::vector<std::string> names;
  const LayeredPlan layers = galvatron::layered(plan);
  const auto stages = static_cast<std::int32_t>(layers.stages.size());
  for (const galvatron::StageLayers& stage : layers.stages) {
    for (std::size_t i = 0; i < stage.strategies.size(); ++i) {
      const LayerStrategy& strategy = stage.strategies[i];
      const std::int32_t type = profile_->type_of[static_cast<std::size_t>(stage.operators.begin) + i];
      if (formulas_->has(type, strategy, stages)) continue;
      names.push_back("strategy " + strategy.text(stages) + " of " +
                      profile_->types[static_cast<std::size_t>(type)].cost_key +
                      " (stored bytes for its tensor-parallel ranks, all-reduces of its groups)");
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Prediction GalvatronCostModel::evaluate(const Plan& plan) const {
  Prediction prediction;
  prediction.missing_costs = missing(plan);
  if (!prediction.missing_costs.empty()) {
    prediction.stages.resize(plan.stages.size());
    prediction.take_price_away();
    return prediction;
  }
  const LayeredPrice priced = galvatron::price(*formulas_, galvatron::layered(plan));
  prediction.iteration_ms = prediction.interval_low_ms = prediction.interval_high_ms = priced.iteration_ms;
  for (const StagePart& part : priced.stages) {
    prediction.stages.push_back(
        predict_stage(part, formulas_->variant(), plan.microbatches(), prediction.iteration_ms));
  }
  judge(priced, *formulas_, prediction);
  const auto slowest = std::max_element(priced.stages.begin(), priced.stages.end(),
                                        [](const auto& a, const auto& b) { return a.sum.plain_ms < b.sum.plain_ms; });
  const double steps = formulas_->variant() == Variant::kV1 ? 1 : plan.microbatches();
  prediction.communication_share_ms =
      std::min(prediction.iteration_ms, steps * (slowest->exposed_ms + slowest->change_ms));
  prediction.computation_share_ms = prediction.iteration_ms - prediction.communication_share_ms;
  return prediction;
}

std::vector<TimelineEvent> GalvatronCostModel::timeline(const Plan& plan) const {
  const LayeredPrice priced = galvatron::price(*formulas_, galvatron::layered(plan));
  const std::int32_t steps = formulas_->variant() == Variant::kV1 ? 1 : plan.microbatches();
  double pace = 0;
  for (const StagePart& part : priced.stages) pace = std::max(pace, part.sum.plain_ms);
  std::vector<TimelineEvent> events;
  double before = 0;
  for (std::size_t s = 0; s < priced.stages.size(); ++s) {
    const StagePart& part = priced.stages[s];
    const auto stage = static_cast<std::int32_t>(s);
    for (std::int32_t k = 0; k < steps; ++k) {
      double at = before + k * pace;
      const auto add = [&](EventKind kind, double ms) {
        if (ms > 0) events.push_back({stage, kind, k, at, at + ms});
        at += ms;
      };
      add(EventKind::kForward, part.forward_ms);
      add(EventKind::kTransfer, part.exposed_ms + part.change_ms);
      add(EventKind::kRecompute, part.recompute_ms);
      add(EventKind::kBackward, part.backward_ms);
      if (k == steps - 1) add(EventKind::kGradientSync, part.sync_ms());
    }
    before += part.sum.plain_ms;
  }
  return events;
}

std::vector<std::string> GalvatronCostModel::unpriced(const Plan& plan) const {
  std::vector<std::string> names;
  const Variant variant = formulas_->variant();
  const Schedule& schedule = plan.schedule;
  const bool priced =
      schedule.kind == ScheduleKind::k1F1B || (variant == Variant::kV1 && schedule.kind == ScheduleKind::kGPipe);
  if (!priced) names.emplace_back("schedule.kind (only 1f1b is priced)");
  if (schedule.sliced_microbatches > 0) names.emplace_back("schedule.sliced_microbatches");
  if (schedule.sub_batches > 1) names.emplace_back("schedule.sub_batches");
  if (schedule.cross_pass) names.emplace_back("schedule.cross_pass");
  if (schedule.recompute_after_communication) names.emplace_back("schedule.recompute_after_communication");
  if (!even_and_ordered(plan, profile_->devices)) {
    names.emplace_back("stages.devices (only a power of two of equal stages on devices in order is priced)");
  }
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (std::size_t i = 0; i < plan.stages[s].segments.size(); ++i) {
      name_segment(plan.stages[s].segments[i], variant, segment_text(s, i), names);
    }
  }
  return names;
}

std::unique_ptr<Evaluator> GalvatronCostModel::evaluator(const PlanSpace& space) const {
  return std::make_unique<galvatron::GalvatronEvaluator>(*this, space);
}

}  // namespace trimtab::tuner
