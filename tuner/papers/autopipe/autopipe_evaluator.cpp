#include "papers/autopipe/autopipe_evaluator.hpp"

#include <algorithm>
#include <limits>

#include "solvers/autopipe/slicer.hpp"
#include "strategies/autopipe/autopipe.hpp"

namespace trimtab::tuner::autopipe {

AutopipeEvaluator::AutopipeEvaluator(const AutopipeCostModel& cost_model, const PlanSpace& space)
    : Evaluator(cost_model, space), cost_model_(cost_model), stages_(cost_model.native(), space) {}

Score AutopipeEvaluator::price(const Candidate& candidate) {
  count();
  Score score;
  score.priced = stages_.pipeline_of(candidate, pipeline_, score.excess_bytes);
  if (!score.priced) return {};
  score.ms = best_step_ms(candidate);
  if (score.ms == std::numeric_limits<double>::infinity()) return {};
  return score;
}

// REQUIRES: pipeline_ is the candidate's.
double AutopipeEvaluator::best_step_ms(const Candidate& candidate) {
  const std::size_t stages = pipeline_.size();
  forward_.resize(stages);
  backward_.resize(stages);
  transfer_.resize(stages);
  for (std::size_t x = 0; x < stages; ++x) {
    forward_[x] = pipeline_[x].forward;
    backward_[x] = pipeline_[x].backward;
    transfer_[x] = pipeline_[x].transfer;
  }
  Pipeline pipeline{forward_.data(),
                    backward_.data(),
                    transfer_.data(),
                    static_cast<std::int32_t>(stages),
                    model().global_batch / candidate.microbatch,
                    cost_model_.transfers()};
  const std::int32_t most = std::min(most_sliced(pipeline), tuner::most_sliced(candidate, model()));
  sliced_ = pipeline.sliced = std::min(candidate.sliced_microbatches.value_or(0), most);
  double best = step_time(pipeline, times_);
  if (candidate.sliced_microbatches || !space().sliced_microbatches) return best;
  for (pipeline.sliced = 1; pipeline.sliced <= most; ++pipeline.sliced) {
    const double ms = step_time(pipeline, times_);
    if (ms >= best) continue;
    best = ms;
    sliced_ = pipeline.sliced;
  }
  return best;
}

Plan AutopipeEvaluator::plan(const Candidate& candidate) {
  Plan plan = stages_.plan(candidate);
  double excess_bytes = 0;
  if (!stages_.pipeline_of(candidate, pipeline_, excess_bytes)) return plan;
  best_step_ms(candidate);
  plan.schedule.sliced_microbatches = sliced_;
  return plan;
}

const StagePrice& AutopipeEvaluator::stage(const Candidate& candidate, std::size_t stage) {
  answer_ = stages_.stage(candidate, stage);
  if (!answer_.priced) return answer_;
  answer_.sync = answer_.optimizer = answer_.after = 0;
  answer_.last_backward = answer_.tail = answer_.backward + answer_.recompute + answer_.backward_wait;
  const double each = answer_.forward + answer_.backward + answer_.recompute + answer_.communication;
  answer_.step_ms = model().global_batch / candidate.microbatch * each;
  return answer_;
}

std::span<const double> AutopipeEvaluator::computing_sums(std::int32_t microbatch, const Split& split) {
  const OperatorTable& costs = cost_model_.native().table().tables().at(microbatch / split.dp, split.tp);
  if (costs.gaps.back() != 0) return {};
  const LookupKey key{microbatch, split.dp, split.tp};
  const auto found = sums_.find(key);
  if (found != sums_.end()) return found->second;
  const double microbatches = model().global_batch / microbatch;
  std::vector<double> sums;
  for (std::size_t i = 0; i < costs.forward_sum.size(); ++i) {
    sums.push_back(microbatches * (costs.forward_sum[i] + costs.backward_sum[i]));
  }
  return sums_.emplace(key, std::move(sums)).first->second;
}

StrategyEnd AutopipeEvaluator::search(SearchRun& run, const std::optional<Candidate>& /*start*/) {
  return autopipe::search(run, cost_model_.transfers());
}

}  // namespace trimtab::tuner::autopipe
