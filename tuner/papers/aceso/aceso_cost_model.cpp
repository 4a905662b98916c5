#include "papers/aceso_cost_model.hpp"

#include <set>

#include "papers/aceso/aceso_evaluator.hpp"
#include "papers/answers/answers.hpp"

namespace trimtab::tuner {
namespace {

using aceso::OperatorSplit;
using aceso::StageParts;
using aceso::Tables;
using papers::bytes_of;

struct StageInput {
  std::vector<OperatorSplit> splits;
  std::vector<std::uint8_t> recompute;
};

StageInput input_of(const Tables& tables, std::int32_t microbatch, const Stage& stage) {
  const Range range = stage.operators();
  StageInput input;
  input.recompute.assign(static_cast<std::size_t>(range.size()), 0);
  std::vector<std::uint8_t> alternate(input.recompute.size(), 0);
  for (const Segment& segment : stage.segments) {
    aceso::mark(segment.recompute, range.begin, input.recompute);
    aceso::mark(segment.alternate_dimension, range.begin, alternate);
    for (std::int32_t op = segment.operators.begin; op < segment.operators.end; ++op) {
      const bool other = alternate[op - range.begin] != 0;
      input.splits.push_back(
          {tables.setting(microbatch / segment.dp, segment.tp, other), segment.dp, segment.tp, other});
    }
  }
  return input;
}

std::vector<StageParts> plan_parts(const Tables& tables, const Plan& plan) {
  std::vector<StageParts> all;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    const StageInput input = input_of(tables, plan.microbatch, stage);
    const aceso::Place place{static_cast<std::int32_t>(plan.stages.size() - s),
                             tables.inter_node_input(stage.devices.front()),
                             tables.inter_node_output(stage.devices.back() + 1)};
    all.push_back(stage_parts(tables, stage.operators().begin, input.splits, input.recompute, place));
  }
  return all;
}

// Operators of the plan that were not measured as it splits them, by name.
std::vector<std::string> unmeasured(const Tables& tables, const Model& model, const Plan& plan) {
  std::set<std::string> names;
  for (const Stage& stage : plan.stages) {
    const StageInput input = input_of(tables, plan.microbatch, stage);
    std::int32_t op = stage.operators().begin;
    for (const OperatorSplit& split : input.splits) {
      const Operator& of = model.operators[op];
      if (tables.row(split.setting, op++).measured) continue;
      names.insert("operator_forward " + of.cost_key + " samples=" + std::to_string(plan.microbatch / split.dp) +
                   " tp=" + std::to_string(split.tp) + (split.alternate ? " alternate" : " default"));
    }
  }
  return {names.begin(), names.end()};
}

StagePrediction predict_stage(const Tables& tables, const StageParts& parts, std::int32_t copies,
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
  stage.memory.reserved = stage.memory.working = bytes_of(parts.reserved);
  return stage;
}

}  // namespace

Result<AcesoCostModel> AcesoCostModel::build(const Model& model, const Cluster& cluster,
                                             const std::vector<Cost>& costs) {
  return build(std::make_shared<const Model>(model), cluster, aceso::profile_from_costs(costs, model.dtype));
}

Result<AcesoCostModel> AcesoCostModel::build(std::shared_ptr<const Model> model, const Cluster& cluster,
                                             const aceso::Profile& profile) {
  TRIMTAB_TRY(Tables tables, Tables::build(*model, cluster, profile));
  AcesoCostModel built;
  built.model_ = std::move(model);
  built.cluster_ = std::make_shared<const Cluster>(cluster);
  built.tables_ = std::make_shared<const Tables>(std::move(tables));
  return built;
}

std::unique_ptr<CostModel> AcesoCostModel::on(const Cluster& cluster) const {
  Result<AcesoCostModel> built = build(model_, cluster, tables_->profile());
  return built.ok() ? std::make_unique<AcesoCostModel>(std::move(*built)) : nullptr;
}

Prediction AcesoCostModel::evaluate(const Plan& plan) const {
  const std::vector<StageParts> stages = plan_parts(*tables_, plan);
  double sum = 0;
  std::size_t slowest = 0;
  std::size_t fullest = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    sum += stages[s].time();
    if (stages[s].time() > stages[slowest].time()) slowest = s;
    if (stages[s].memory > stages[fullest].memory) fullest = s;
  }
  const std::int32_t microbatches = plan.microbatches();
  const double iteration_ms = (stages[slowest].time() * (microbatches - 1) + sum) / 1000;
  Prediction prediction;
  double communication = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const auto copies = static_cast<std::int32_t>(stages.size() - s);
    prediction.stages.push_back(predict_stage(*tables_, stages[s], copies, microbatches, iteration_ms));
    communication += (stages[s].in + stages[s].out) * (s == slowest ? microbatches : 1) / 1000;
  }
  papers::set_time(iteration_ms, communication, prediction);
  const StageParts& of = stages[slowest];
  papers::name_bottleneck(slowest, of.in + of.out > of.time() / 2, prediction);
  prediction.missing_costs = unmeasured(*tables_, *model_, plan);
  const double memory = stages[fullest].memory;
  const double limit = tables_->memory_limit();
  if (!prediction.missing_costs.empty()) {
    prediction.take_price_away();
  } else if (memory > limit) {
    papers::exceed(fullest,
                   papers::excess_text(fullest, bytes_of(memory), bytes_of(limit), bytes_of(memory - limit),
                                       "give it fewer operators, more devices or more recompute"),
                   prediction);
  }
  return prediction;
}

std::vector<TimelineEvent> AcesoCostModel::timeline(const Plan& plan) const {
  std::vector<papers::PacedStage> stages;
  for (const StageParts& parts : plan_parts(*tables_, plan)) {
    stages.push_back({parts.time() / 1000,
                      {{EventKind::kTransfer, parts.in / 1000},
                       {EventKind::kForward, parts.forward / 1000},
                       {EventKind::kRecompute, parts.recompute / 1000},
                       {EventKind::kBackward, parts.backward / 1000},
                       {EventKind::kTransfer, parts.out / 1000}},
                      0});
  }
  return papers::paced_timeline(stages, plan.microbatches());
}

std::vector<std::string> AcesoCostModel::unpriced(const Plan& plan) const {
  std::vector<std::string> names;
  papers::name_schedule(plan.schedule, plan.schedule.kind == ScheduleKind::k1F1B, names);
  papers::each_segment(plan, [&](const Segment& segment, const std::string& at) {
    if (segment.cp > 1) names.push_back(at + "cp");
    if (segment.sharded != ShardedLevel::kNone) names.push_back(at + "sharded");
    if (segment.switches != Switches{}) names.push_back(at + "switches");
  });
  return names;
}

std::unique_ptr<Evaluator> AcesoCostModel::evaluator(const PlanSpace& space) const {
  return std::make_unique<aceso::AcesoEvaluator>(*this, space);
}

}  // namespace trimtab::tuner
