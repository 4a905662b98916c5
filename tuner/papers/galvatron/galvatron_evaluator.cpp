#include "papers/galvatron/galvatron_evaluator.hpp"

#include <algorithm>

namespace trimtab::tuner::galvatron {

Plan GalvatronEvaluator::plan(const Candidate& candidate) {
  std::vector<std::vector<Range>> recompute;
  for (const CandidateStage& stage : candidate.stages) {
    recompute.push_back(stage.recompute.value_or(std::vector<Range>{}));
  }
  return plan_of(candidate, model(), recompute);
}

Score GalvatronEvaluator::price(const Candidate& candidate) {
  count();
  const Plan plan = this->plan(candidate);
  if (!galvatron_->unpriced(plan).empty()) return {};
  const Prediction prediction = galvatron_->evaluate(plan);
  Score score;
  score.priced = prediction.missing_costs.empty();
  if (!score.priced) return score;
  score.ms = prediction.iteration_ms;
  const double limit = galvatron_->formulas().profile().memory_limit_mib;
  for (const StagePrediction& stage : prediction.stages) {
    score.excess_bytes = std::max(score.excess_bytes, static_cast<double>(stage.memory_bytes) - limit * kMiB);
  }
  if (prediction.feasible) score.excess_bytes = 0;
  return score;
}

const StagePrice& GalvatronEvaluator::stage(const Candidate& candidate, std::size_t stage) {
  stage_ = {};
  const Plan plan = this->plan(candidate);
  if (!galvatron_->unpriced(plan).empty()) return stage_;
  const Prediction prediction = galvatron_->evaluate(plan);
  if (!prediction.missing_costs.empty()) return stage_;
  const StagePrediction& of = prediction.stages[stage];
  stage_.priced = true;
  stage_.forward = of.forward_ms;
  stage_.backward = of.backward_ms;
  stage_.recompute = of.recompute_ms;
  stage_.communication = of.exposed_communication_ms;
  stage_.sync = of.gradient_sync_ms;
  stage_.last_backward = stage_.tail = of.backward_ms + of.recompute_ms + of.gradient_sync_ms;
  const double microbatch_ms = of.forward_ms + of.backward_ms + of.recompute_ms + of.exposed_communication_ms;
  stage_.step_ms = microbatch_ms * plan.microbatches() + of.gradient_sync_ms;
  stage_.memory_bytes = static_cast<double>(of.memory_bytes);
  stage_.limit_bytes = galvatron_->formulas().profile().memory_limit_mib * kMiB;
  stage_.excess_bytes = std::max(0.0, stage_.memory_bytes - stage_.limit_bytes);
  for (const Segment& segment : plan.stages[stage].segments) {
    stage_.recompute_ranges.insert(stage_.recompute_ranges.end(), segment.recompute.begin(), segment.recompute.end());
  }
  return stage_;
}

std::string GalvatronEvaluator::excess_text(const Candidate& candidate) {
  const Plan plan = this->plan(candidate);
  const std::vector<std::string> unpriced = galvatron_->unpriced(plan);
  if (!unpriced.empty()) return unpriced.front() + " is not priced";
  return galvatron_->evaluate(plan).infeasible_reason;
}

std::span<const double> GalvatronEvaluator::computing_sums(std::int32_t microbatch, const Split& split) {
  const auto [at, fresh] = sums_.try_emplace({microbatch, split.tp * 65536 + split.dp});
  if (!fresh) return at->second;
  const Profile& profile = galvatron_->formulas().profile();
  const double samples = static_cast<double>(model().global_batch) / split.dp;
  std::vector<double>& sums = at->second;
  sums.push_back(0);
  for (const std::int32_t type : profile.type_of) {
    const double forward = profile.types[static_cast<std::size_t>(type)].forward_ms * samples / split.tp;
    sums.push_back(sums.back() + 3 * forward);
  }
  return sums;
}

}  // namespace trimtab::tuner::galvatron
