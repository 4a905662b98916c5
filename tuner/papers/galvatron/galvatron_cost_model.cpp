#include "papers/galvatron_cost_model.hpp"

#include <algorithm>

#include "papers/answers/answers.hpp"
#include "papers/galvatron/layered_plan.hpp"

namespace trimtab::tuner {
namespace {

using galvatron::Formulas;
using galvatron::LayeredPlan;
using galvatron::LayeredPrice;
using galvatron::LayerStrategy;
using galvatron::StagePart;
using galvatron::Variant;
using papers::bytes_of;

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
  if (segment.cp > 1) names.push_back(at + "cp");
  if (segment.switches != Switches{}) names.push_back(at + "switches");
  if (!segment.alternate_dimension.empty()) names.push_back(at + "alternate_dimension");
  if (variant == Variant::kV1 && !segment.recompute.empty()) names.push_back(at + "recompute (v1 knows none)");
  const bool mixed = segment.sharded_degree > 0 && segment.sharded_degree != segment.dp;
  if (mixed && variant != Variant::kPaper) names.push_back(at + "sharded_degree (replicas of shards: galvatron:paper)");
  const bool gradients = segment.sharded == ShardedLevel::kGradients && variant != Variant::kV2;
  if (segment.sharded == ShardedLevel::kOptimizer || gradients) {
    names.push_back(at + "sharded (" + (gradients ? "gradients: galvatron:v2" : "optimizer: native") + ")");
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

const StagePart& slowest_of(const LayeredPrice& priced) {
  return *std::max_element(priced.stages.begin(), priced.stages.end(),
                           [](const auto& a, const auto& b) { return a.sum.plain_ms < b.sum.plain_ms; });
}

void judge(const LayeredPrice& priced, double limit, Prediction& prediction) {
  const StagePart& slowest = slowest_of(priced);
  const double waiting = slowest.exposed_ms + slowest.change_ms;
  papers::name_bottleneck(static_cast<std::size_t>(&slowest - priced.stages.data()), waiting > slowest.sum.plain_ms / 2,
                          prediction);
  if (priced.excess_mib(limit) <= 0) return;
  const auto most = std::max_element(priced.stages.begin(), priced.stages.end(),
                                     [](const auto& a, const auto& b) { return a.memory_mib() < b.memory_mib(); });
  const double memory = most->memory_mib();
  const auto fullest = static_cast<std::size_t>(most - priced.stages.begin());
  papers::exceed(
      fullest,
      papers::excess_text(fullest, bytes_of(memory), bytes_of(limit), bytes_of(memory - limit),
                          "shard its states, recompute or split more of its layers, or give it fewer of them"),
      prediction);
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
  for (const StagePart& part : priced.stages) {
    prediction.stages.push_back(predict_stage(part, formulas_->variant(), plan.microbatches(), priced.iteration_ms));
  }
  judge(priced, profile_->memory_limit_mib, prediction);
  const StagePart& slowest = slowest_of(priced);
  const double steps = formulas_->variant() == Variant::kV1 ? 1 : plan.microbatches();
  papers::set_time(priced.iteration_ms, std::min(priced.iteration_ms, steps * (slowest.exposed_ms + slowest.change_ms)),
                   prediction);
  return prediction;
}

std::vector<TimelineEvent> GalvatronCostModel::timeline(const Plan& plan) const {
  std::vector<papers::PacedStage> stages;
  for (const StagePart& part : galvatron::price(*formulas_, galvatron::layered(plan)).stages) {
    stages.push_back({part.sum.plain_ms,
                      {{EventKind::kForward, part.forward_ms},
                       {EventKind::kTransfer, part.exposed_ms + part.change_ms},
                       {EventKind::kRecompute, part.recompute_ms},
                       {EventKind::kBackward, part.backward_ms}},
                      part.sync_ms()});
  }
  return papers::paced_timeline(stages, formulas_->variant() == Variant::kV1 ? 1 : plan.microbatches());
}

std::vector<std::string> GalvatronCostModel::unpriced(const Plan& plan) const {
  std::vector<std::string> names;
  const Variant variant = formulas_->variant();
  const Schedule& schedule = plan.schedule;
  const bool priced =
      schedule.kind == ScheduleKind::k1F1B || (variant == Variant::kV1 && schedule.kind == ScheduleKind::kGPipe);
  papers::name_schedule(schedule, priced, names);
  papers::name_late_recompute(schedule, names);
  if (!even_and_ordered(plan, profile_->devices)) {
    names.emplace_back("stages.devices (only a power of two of equal stages on devices in order is priced)");
  }
  papers::each_segment(
      plan, [&](const Segment& segment, const std::string& at) { name_segment(segment, variant, at, names); });
  return names;
}

}  // namespace trimtab::tuner
