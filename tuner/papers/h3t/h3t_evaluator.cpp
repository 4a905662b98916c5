#include "papers/h3t/h3t_evaluator.hpp"

#include <algorithm>
#include <limits>

#include "native/costs/tables.hpp"
#include "papers/h3t/h3t_plan.hpp"

namespace trimtab::tuner::h3t {
namespace {

// The search's own strategy goes further; this is one price among many.
constexpr std::size_t kLabels = 30'000;

double excess_of(const Prediction& prediction, const Problem& problem) {
  if (prediction.feasible) return 0;
  const Bytes over = prediction.stages.front().memory_bytes - problem.device_limit;
  // No memory of a device makes up for the host's.
  return over > 0 ? static_cast<double>(over) : std::numeric_limits<double>::infinity();
}

}  // namespace

bool H3tEvaluator::priced(const Candidate& candidate) const {
  if (candidate.stages.size() != 1 || candidate.microbatch != model().global_batch) return false;
  const CandidateStage& stage = candidate.stages.front();
  const std::vector<CandidateSegment> segments = segments_of(stage);
  return segments.size() == 1 && stage.alternate.empty() && segments.front().split.tp == 1 &&
         model().global_batch % segments.front().split.dp == 0;
}

const H3tEvaluator::Solved& H3tEvaluator::solved(std::int32_t devices) {
  const auto found = solved_.find(devices);
  if (found != solved_.end()) return found->second;
  Solved solved{cost_model_.inputs(devices), {}};
  ExactOptions options;
  options.most_labels = kLabels;
  solved.answer = solve_exactly(cost_model_.problem(solved.inputs, devices), options);
  return solved_.emplace(devices, std::move(solved)).first->second;
}

Score H3tEvaluator::price(const Candidate& candidate) {
  count();
  if (!priced(candidate)) return {};
  const StagePrice& price = stage(candidate, 0);
  Score score;
  score.priced = price.priced;
  score.excess_bytes = price.excess_bytes;
  if (score.priced) score.ms = price.step_ms;
  return score;
}

const StagePrice& H3tEvaluator::stage(const Candidate& candidate, std::size_t /*stage*/) {
  price_ = {};
  if (!priced(candidate)) return price_;
  const Prediction prediction = cost_model_.evaluate(plan(candidate));
  const StagePrediction& of = prediction.stages.front();
  const Problem problem =
      cost_model_.problem(solved(candidate.stages.front().devices).inputs, candidate.stages.front().devices);
  price_.priced = prediction.missing_costs.empty();
  price_.forward = of.forward_ms;
  price_.backward = of.backward_ms;
  price_.recompute = of.recompute_ms;
  price_.communication = of.exposed_communication_ms;
  price_.optimizer = of.optimizer_ms;
  price_.last_backward = of.backward_ms + of.recompute_ms;
  price_.tail = price_.last_backward + of.optimizer_ms;
  price_.after = of.optimizer_ms;
  price_.step_ms = prediction.iteration_ms;
  price_.memory_bytes = static_cast<double>(of.memory_bytes);
  price_.limit_bytes = problem.device_limit == kUnlimited ? 0 : static_cast<double>(problem.device_limit);
  price_.excess_bytes = excess_of(prediction, problem);
  return price_;
}

Plan H3tEvaluator::plan(const Candidate& candidate) {
  if (!priced(candidate))
    return tuner::plan_of(candidate, model(), std::vector<std::vector<Range>>(candidate.stages.size()));
  const CandidateStage& stage = candidate.stages.front();
  const Solved& of = solved(stage.devices);
  if (!stage.recompute) return plan_of(model(), stage.devices, of.inputs.operators, of.answer.best.switches);
  Plan plan = plan_of(model(), stage.devices, of.inputs.operators, Switching(of.inputs.layers.size()));
  plan.stages.front().segments.front().recompute = *stage.recompute;
  return plan;
}

std::string H3tEvaluator::excess_text(const Candidate& candidate) {
  return priced(candidate) ? cost_model_.evaluate(plan(candidate)).infeasible_reason : "";
}

std::span<const double> H3tEvaluator::computing_sums(std::int32_t microbatch, const Split& split) {
  const CostTable::Tables& tables = cost_model_.table().tables();
  const std::int32_t samples = microbatch / split.dp;
  std::vector<double>& sums = sums_[samples];
  const OperatorTable& costs = tables.at(samples);
  if (!sums.empty() || costs.gaps.empty() || costs.gaps.back() > 0) return sums;
  const double microbatches = model().global_batch / microbatch;
  for (std::size_t i = 0; i < costs.forward_sum.size(); ++i) {
    sums.push_back(microbatches * (costs.forward_sum[i] + costs.backward_sum[i]));
  }
  return sums;
}

}  // namespace trimtab::tuner::h3t
