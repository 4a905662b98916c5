#pragma once

// The galvatron models' evaluator: every candidate is written out as a plan and priced anew. Stages of unequal or
// unordered devices have no price. One per search; not thread-safe.

#include <map>
#include <utility>
#include <vector>

#include "papers/galvatron/layered_plan.hpp"
#include "papers/galvatron_cost_model.hpp"
#include "pricing/evaluator.hpp"
#include "search/strategy.hpp"

namespace trimtab::tuner::galvatron {

class GalvatronEvaluator final : public Evaluator, public OwnSearch {
 public:
  GalvatronEvaluator(const GalvatronCostModel& cost_model, const PlanSpace& space)
      : Evaluator(cost_model, space), galvatron_(&cost_model) {}

  Score price(const Candidate& candidate) override;
  const StagePrice& stage(const Candidate& candidate, std::size_t stage) override;
  Plan plan(const Candidate& candidate) override;
  std::string excess_text(const Candidate& candidate) override;
  std::span<const double> computing_sums(std::int32_t microbatch, const Split& split) override;

  OwnSearch* own_search() override { return this; }
  [[nodiscard]] std::string_view strategy() const override { return "galvatron"; }
  // galvatron_search.cpp
  StrategyEnd search(SearchRun& run, const std::optional<Candidate>& start) override;

  // For a search that prices plans which candidates cannot express: `plans` more evaluations.
  void count_plans(std::uint64_t plans) {
    while (plans-- > 0) count();
  }
  [[nodiscard]] const GalvatronCostModel& galvatron() const { return *galvatron_; }

 private:
  const GalvatronCostModel* galvatron_;
  StagePrice stage_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<double>> sums_;
};

}  // namespace trimtab::tuner::galvatron
