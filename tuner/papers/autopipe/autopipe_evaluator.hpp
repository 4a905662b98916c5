#pragma once

// The autopipe model's evaluator: the native evaluator's memoized stages under AutoPipe's recurrences. One per search;
// not thread-safe.

#include <unordered_map>
#include <vector>

#include "native/step/native_evaluator.hpp"
#include "papers/autopipe_cost_model.hpp"
#include "search/strategy.hpp"
#include "solvers/autopipe/recurrences.hpp"

namespace trimtab::tuner::autopipe {

class AutopipeEvaluator final : public Evaluator, public OwnSearch {
 public:
  AutopipeEvaluator(const AutopipeCostModel& cost_model, const PlanSpace& space);

  Score price(const Candidate& candidate) override;
  const StagePrice& stage(const Candidate& candidate, std::size_t stage) override;
  Plan plan(const Candidate& candidate) override;
  std::string excess_text(const Candidate& candidate) override { return stages_.excess_text(candidate); }
  std::span<const double> computing_sums(std::int32_t microbatch, const Split& split) override;
  void forget() override { stages_.forget(); }
  OwnSearch* own_search() override { return this; }
  [[nodiscard]] std::string_view strategy() const override { return "autopipe"; }
  StrategyEnd search(SearchRun& run, const std::optional<Candidate>& start) override;

 private:
  // Sliced as the candidate says; else, where the space slices, as many microbatches as pay most, the fewest of equals.
  double best_step_ms(const Candidate& candidate);
  const AutopipeCostModel& cost_model_;
  NativeEvaluator stages_;
  StagePrice answer_;        // of stage()
  std::int32_t sliced_ = 0;  // microbatches, of best_step_ms()
  std::vector<PipelineStage> pipeline_;
  std::vector<double> forward_, backward_, transfer_;
  PipelineTimes times_;
  std::unordered_map<LookupKey, std::vector<double>, LookupKeyHash> sums_;
};

}  // namespace trimtab::tuner::autopipe
