#pragma once

// The oases model's evaluator: one stage over all devices from tables of nodes and neighbours. Every other candidate is
// without a price. One per search; not thread-safe.

#include <map>
#include <vector>

#include "papers/oases/tables.hpp"
#include "pricing/evaluator.hpp"
#include "pricing/stage_chain.hpp"
#include "search/strategy.hpp"

namespace trimtab::tuner::oases {

class OasesEvaluator final : public Evaluator, public OwnSearch, public StageChains {
 public:
  OasesEvaluator(const OasesCostModel& cost_model, const PlanSpace& space);

  Score price(const Candidate& candidate) override;
  const StagePrice& stage(const Candidate& candidate, std::size_t stage) override;
  // With the overlapped schedule.
  Plan plan(const Candidate& candidate) override;
  std::string excess_text(const Candidate& candidate) override;
  std::span<const double> computing_sums(std::int32_t microbatch, const Split& split) override;
  StageChains* stage_chains() override { return this; }
  // Exact.
  StageChain stage_chain(std::int32_t microbatch) override;
  OwnSearch* own_search() override { return this; }
  [[nodiscard]] std::string_view strategy() const override { return "oases"; }
  StrategyEnd search(SearchRun& run, const std::optional<Candidate>& start) override;

 private:
  // Fills in choice_; false where the model prices no such candidate.
  bool choose(const Candidate& candidate);

  const Tables& tables_;
  Choice choice_;
  StagePrice stage_;
  std::map<std::int32_t, std::vector<double>> sums_;  // by tp
};

}  // namespace trimtab::tuner::oases
