#include <algorithm>
#include <limits>
#include <unordered_map>

#include "native/step/native_evaluator.hpp"
#include "papers/answers/answers.hpp"
#include "papers/autopipe_cost_model.hpp"
#include "search/strategy.hpp"
#include "solvers/autopipe/partition.hpp"
#include "solvers/autopipe/recurrences.hpp"
#include "strategies/autopipe/autopipe.hpp"

namespace trimtab::tuner {
namespace autopipe {
namespace {

// The native evaluator's memoized stages under AutoPipe's recurrences. One per search; not thread-safe.
class AutopipeEvaluator final : public Evaluator, public OwnSearch {
 public:
  AutopipeEvaluator(const AutopipeCostModel& cost_model, const PlanSpace& space)
      : Evaluator(cost_model, space), cost_model_(cost_model), stages_(cost_model.native(), space) {}

  Score price(const Candidate& candidate) override {
    count();
    Score score;
    score.priced = stages_.pipeline_of(candidate, pipeline_, score.excess_bytes);
    if (!score.priced) return {};
    score.ms = best_step_ms(candidate);
    if (score.ms == std::numeric_limits<double>::infinity()) return {};
    return score;
  }

  const StagePrice& stage(const Candidate& candidate, std::size_t stage) override {
    answer_ = stages_.stage(candidate, stage);
    if (!answer_.priced) return answer_;
    answer_.sync = answer_.optimizer = answer_.after = 0;
    answer_.last_backward = answer_.tail = answer_.backward + answer_.recompute + answer_.backward_wait;
    const double each = answer_.forward + answer_.backward + answer_.recompute + answer_.communication;
    answer_.step_ms = model().global_batch / candidate.microbatch * each;
    return answer_;
  }

  Plan plan(const Candidate& candidate) override {
    Plan plan = stages_.plan(candidate);
    double excess_bytes = 0;
    if (!stages_.pipeline_of(candidate, pipeline_, excess_bytes)) return plan;
    best_step_ms(candidate);
    plan.schedule.sliced_microbatches = sliced_;
    return plan;
  }

  std::string excess_text(const Candidate& candidate) override { return stages_.excess_text(candidate); }

  std::span<const double> computing_sums(std::int32_t microbatch, const Split& split) override {
    const OperatorTable& costs = cost_model_.native().table().tables().at(microbatch / split.dp, split.tp);
    const auto [at, fresh] = sums_.try_emplace({microbatch, split.dp, split.tp});
    if (fresh) at->second = papers::computing_sums(costs, model().global_batch / microbatch);
    return at->second;
  }

  void forget() override { stages_.forget(); }
  OwnSearch* own_search() override { return this; }
  [[nodiscard]] std::string_view strategy() const override { return "autopipe"; }
  StrategyEnd search(SearchRun& run, const std::optional<Candidate>& /*start*/) override {
    return autopipe::search(run, cost_model_.transfers());
  }

 private:
  // Sliced as the candidate says; else, where the space slices, as many microbatches as pay most, the fewest of equals.
  // REQUIRES: pipeline_ is the candidate's.
  double best_step_ms(const Candidate& candidate) {
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

  const AutopipeCostModel& cost_model_;
  NativeEvaluator stages_;
  StagePrice answer_;        // of stage()
  std::int32_t sliced_ = 0;  // microbatches, of best_step_ms()
  std::vector<PipelineStage> pipeline_;
  std::vector<double> forward_, backward_, transfer_;
  PipelineTimes times_;
  std::unordered_map<LookupKey, std::vector<double>, LookupKeyHash> sums_;
};

}  // namespace
}  // namespace autopipe

std::unique_ptr<Evaluator> AutopipeCostModel::evaluator(const PlanSpace& space) const {
  return std::make_unique<autopipe::AutopipeEvaluator>(*this, space);
}

}  // namespace trimtab::tuner
