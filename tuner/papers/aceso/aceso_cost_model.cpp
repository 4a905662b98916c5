#include "papers/aceso_cost_model.hpp"

#include <algorithm>
#include <cmath>

#include "base/units.hpp"
#include "papers/aceso/aceso_evaluator.hpp"
#include "papers/aceso/plan_parts.hpp"

namespace trimtab::tuner {
namespace {

using aceso::kMiB;
using aceso::StageParts;

Bytes bytes_of(double mib) {
  return static_cast<Bytes>(std::llround(mib * kMiB));
}

StagePrediction predict_stage(const aceso::Tables& tables, const StageParts& parts, std::int32_t copies,
                              std::int32_t microbatches, double iteration_ms) {
  StagePrediction stage;
  stage.forward_ms = parts.forward / 1000;
  stage.backward_ms = parts.backward / 1000;
  stage.recompute_ms = parts.recompute / 1000;
  stage.exposed_communication_ms = (parts.in + parts.out) / 1000;
  stage.bubble_ms = std::max(0.0, iteration_ms - microbatches * parts.time() / 1000);
  stage.memory_bytes = bytes_of(parts.memory);
  stage.memory.states = bytes_of(parts.weight * tables.state_multiple());
  stage.memory.activations = bytes_of(parts.kept * copies);
  stage.memory.recompute_peak = bytes_of(parts.recompute_peak);
  stage.memory.reserved = bytes_of(parts.reserved);
  stage.memory.working = stage.memory.reserved;
  return stage;
}

std::string excess_of(std::size_t stage, double memory, double limit) {
  return "stage " + std::to_string(stage) + " needs " + format_bytes(bytes_of(memory)) + ", the memory limit is " +
         format_bytes(bytes_of(limit)) + ", " + format_bytes(bytes_of(memory - limit)) +
         " too much: give it fewer operators, more devices or more recompute";
}

}  // namespace

Result<AcesoCostModel> AcesoCostModel::build(const Model& model, const Cluster& cluster,
                                             const std::vector<Cost>& costs) {
  TRIMTAB_TRY(aceso::Tables tables,
              aceso::Tables::build(model, cluster, aceso::profile_from_costs(costs, model.dtype)));
  AcesoCostModel built;
  built.model_ = std::make_shared<const Model>(model);
  built.cluster_ = std::make_shared<const Cluster>(cluster);
  built.tables_ = std::make_shared<const aceso::Tables>(std::move(tables));
  return built;
}

std::unique_ptr<CostModel> AcesoCostModel::on(const Cluster& cluster) const {
  Result<aceso::Tables> tables = aceso::Tables::build(*model_, cluster, tables_->profile());
  if (!tables.ok()) return nullptr;
  AcesoCostModel built;
  built.model_ = model_;
  built.cluster_ = std::make_shared<const Cluster>(cluster);
  built.tables_ = std::make_shared<const aceso::Tables>(std::move(tables).value());
  return std::make_unique<AcesoCostModel>(std::move(built));
}

Prediction AcesoCostModel::evaluate(const Plan& plan) const {
  const std::vector<StageParts> stages = aceso::plan_parts(*tables_, plan);
  Prediction prediction;
  double sum = 0;
  double largest = 0;
  std::size_t fullest = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    sum += stages[s].time();
    if (stages[s].time() > largest) prediction.bottleneck.stage = static_cast<std::int32_t>(s);
    largest = std::max(largest, stages[s].time());
    if (stages[s].memory > stages[fullest].memory) fullest = s;
  }
  const std::int32_t microbatches = plan.microbatches();
  prediction.iteration_ms = (largest * (microbatches - 1) + sum) / 1000;
  prediction.interval_low_ms = prediction.interval_high_ms = prediction.iteration_ms;
  double communication = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    prediction.stages.push_back(predict_stage(*tables_, stages[s], static_cast<std::int32_t>(stages.size() - s),
                                              microbatches, prediction.iteration_ms));
    const bool is_largest = static_cast<std::int32_t>(s) == prediction.bottleneck.stage;
    communication += (stages[s].in + stages[s].out) * (is_largest ? microbatches : 1) / 1000;
  }
  prediction.communication_share_ms = communication;
  prediction.computation_share_ms = prediction.iteration_ms - communication;
  const StageParts& slowest = stages[prediction.bottleneck.stage];
  prediction.bottleneck.resource = slowest.in + slowest.out > slowest.time() / 2 ? "communication" : "computation";
  prediction.missing_costs = aceso::unmeasured(*tables_, *model_, plan);
  if (!prediction.missing_costs.empty()) {
    prediction.take_price_away();
    return prediction;
  }
  if (stages[fullest].memory > tables_->memory_limit()) {
    prediction.feasible = false;
    prediction.bottleneck = {static_cast<std::int32_t>(fullest), "memory"};
    prediction.infeasible_reason = excess_of(fullest, stages[fullest].memory, tables_->memory_limit());
  }
  return prediction;
}

std::vector<TimelineEvent> AcesoCostModel::timeline(const Plan& plan) const {
  const std::vector<StageParts> stages = aceso::plan_parts(*tables_, plan);
  double pace = 0;
  for (const StageParts& stage : stages) pace = std::max(pace, stage.time() / 1000);
  std::vector<TimelineEvent> events;
  double before = 0;  // one microbatch's way through the stages before
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const auto index = static_cast<std::int32_t>(s);
    const StageParts& stage = stages[s];
    for (std::int32_t k = 0; k < plan.microbatches(); ++k) {
      double at = before + k * pace;
      const auto add = [&](EventKind kind, double us) {
        if (us > 0) events.push_back({index, kind, k, at, at + us / 1000});
        at += us / 1000;
      };
      add(EventKind::kTransfer, stage.in);
      add(EventKind::kForward, stage.forward);
      add(EventKind::kRecompute, stage.recompute);
      add(EventKind::kBackward, stage.backward);
      add(EventKind::kTransfer, stage.out);
    }
    before += stage.time() / 1000;
  }
  return events;
}

std::vector<std::string> AcesoCostModel::unpriced(const Plan& plan) const {
  std::vector<std::string> names;
  const Schedule& schedule = plan.schedule;
  if (schedule.kind != ScheduleKind::k1F1B) names.emplace_back("schedule.kind (only 1f1b is priced)");
  if (schedule.sliced_microbatches > 0) names.emplace_back("schedule.sliced_microbatches");
  if (schedule.sub_batches > 1) names.emplace_back("schedule.sub_batches");
  if (schedule.cross_pass) names.emplace_back("schedule.cross_pass");
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (std::size_t i = 0; i < plan.stages[s].segments.size(); ++i) {
      const Segment& segment = plan.stages[s].segments[i];
      const std::string at = "stages[" + std::to_string(s) + "].segments[" + std::to_string(i) + "].";
      if (segment.cp > 1) names.push_back(at + "cp");
      if (segment.sharded != ShardedLevel::kNone) names.push_back(at + "sharded");
      if (segment.switches != Switches{}) names.push_back(at + "switches");
    }
  }
  return names;
}

std::unique_ptr<Evaluator> AcesoCostModel::evaluator(const PlanSpace& space) const {
  return std::make_unique<aceso::AcesoEvaluator>(*this, space);
}

}  // namespace trimtab::tuner
