#pragma once

// The h3t model's evaluator. A candidate says nothing of memory switches: where its recompute follows from memory they
// are what the exact solver finds with a bounded number of labels; where recompute is spelled out, every other switch
// is off. One per search; not thread-safe.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "papers/h3t/step_inputs.hpp"
#include "papers/h3t_cost_model.hpp"
#include "pricing/evaluator.hpp"
#include "search/strategy.hpp"
#include "solvers/h3t/exact_solver.hpp"
#include "solvers/h3t/segment_simulator.hpp"

namespace trimtab::tuner::h3t {

class H3tEvaluator final : public Evaluator, public OwnSearch {
 public:
  H3tEvaluator(const H3tCostModel& cost_model, const PlanSpace& space)
      : Evaluator(cost_model, space), cost_model_(cost_model) {}

  Score price(const Candidate& candidate) override;
  const StagePrice& stage(const Candidate& candidate, std::size_t stage) override;
  Plan plan(const Candidate& candidate) override;
  std::string excess_text(const Candidate& candidate) override;
  std::span<const double> computing_sums(std::int32_t microbatch, const Split& split) override;
  OwnSearch* own_search() override { return this; }
  [[nodiscard]] std::string_view strategy() const override { return "h3t"; }
  // h3t_search.cpp
  StrategyEnd search(SearchRun& run, const std::optional<Candidate>& start) override;

 private:
  struct Solved {
    StepInputs inputs;
    ExactAnswer answer;
  };
  // One stage of replicas with the whole batch at once: all that the model prices.
  [[nodiscard]] bool priced(const Candidate& candidate) const;
  const Solved& solved(std::int32_t devices);

  const H3tCostModel& cost_model_;
  std::map<std::int32_t, Solved> solved_;  // by devices
  std::map<std::int32_t, std::vector<double>> sums_;
  StagePrice price_;
};

}  // namespace trimtab::tuner::h3t
