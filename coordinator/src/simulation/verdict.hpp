#pragma once

// What a simulated job's decisions were worth, judged by the hidden truth.

#include <nlohmann/json_fwd.hpp>

#include "simulation/simulated_cluster.hpp"
#include "tuning/state.hpp"

namespace trimtab::coordinator {

// The best plan that is known of a simulated cluster as it is in the end: what regret is measured against. Searched for
// with the true costs, which do not tell all of a plan: so the best of each search are priced as they truly are, and so
// is every plan that the job met, and the fastest of them all counts.
struct TrueBest {
  double ms = 0;
  std::string plan_json;
  // By the true costs alone: the fastest plan that was found, and a time that no plan of the space takes less than.
  double of_costs_ms = 0;
  double lower_bound_ms = 0;  // 0 = no strategy says
};

// By the strategies that may find it, in the space of the job's knobs.
[[nodiscard]] Result<TrueBest> true_best(const SimulationInput& input, GroundTruth& truth, const TuningState& state);

// A trial that is over, and the truth at its end.
struct JudgedTrial {
  Trial trial;
  double true_ms = 0;
  double incumbent_true_ms = 0;
  double best_so_far_ms = 0;  // true time of the incumbent afterwards
  double elapsed_ms = 0;      // of the job, when it was over
  double overhead_ms = 0;     // of that, what trials have cost by then
  [[nodiscard]] bool truly_worse() const { return true_ms >= incumbent_true_ms; }
};

class Verdict {
 public:
  explicit Verdict(GroundTruth& truth) : truth_(truth) {}

  // After each event that the machine has handled.
  void watch(const TuningState& state, const TimeSpent& spent);
  // The search's first answer: what the model alone would have run.
  void first_answer(const SearchReply& reply);

  [[nodiscard]] SimulationVerdict judge(const TuningState& state, const TimeSpent& spent, const TrueBest& known) const;
  // With each trial beside the truth.
  [[nodiscard]] std::string json(const SimulationVerdict& verdict, const SimulationInput& input,
                                 const TuningState& state, const TrueBest& known) const;

 private:
  [[nodiscard]] nlohmann::json changes_json(const TuningState& state, double best_ms) const;
  [[nodiscard]] double true_ms(const PlanText& plan) const { return truth_.price(tuned_plan(plan), plan.hash).ms; }

  GroundTruth& truth_;
  std::vector<JudgedTrial> trials_;
  std::int32_t begun_ = 0;  // id of the last trial whose incumbent was noted
  PlanText beside_;         // the incumbent that it is compared with
  bool first_answered_ = false;
  std::optional<TruePrice> model_alone_;
};

}  // namespace trimtab::coordinator
