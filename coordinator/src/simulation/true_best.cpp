#include "simulation/true_best.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "tuner/search.hpp"

namespace trimtab::coordinator {
namespace {

// Of each search. What is slower by its costs than so many others would have to be very lucky.
constexpr std::size_t kPricedAsTheyAre = 200;

Plan parsed(const std::string& text) {
  auto plan = parse_plan(text, "a plan of the tuning machine");
  TRIMTAB_ASSERT(plan.ok(), "plans of the tuning machine parse");
  return std::move(plan).value();
}

void consider(const Plan& plan, GroundTruth& truth, TrueBest& best) {
  const TruePrice& price = truth.price(plan);
  if (!price.fits || (best.ms > 0 && price.ms >= best.ms)) return;
  best.ms = price.ms;
  best.plan_json = to_json(plan);
}

// Those that are for the devices that there are.
void consider_met(const TuningState& state, GroundTruth& truth, TrueBest& best) {
  best = {truth.price(parsed(state.incumbent.json)).ms, state.incumbent.json};
  consider(parsed(state.initial.json), truth, best);
  for (const Trial& trial : state.trials) {
    if (trial.id > state.trials_before_resize) consider(parsed(trial.plan.json), truth, best);
  }
}

}  // namespace

Result<TrueBest> true_best(const SimulationInput& input, GroundTruth& truth, const TuningState& state) {
  TrueBest best;
  consider_met(state, truth, best);
  for (const char* strategy : {"aceso", "unified"}) {
    tuner::SearchOptions options;
    options.strategy = strategy;
    options.seed = input.seed;
    options.max_evaluations = input.best_evaluations > 0 ? input.best_evaluations : 4 * input.evaluations;
    options.plans = kPricedAsTheyAre;
    TRIMTAB_TRY(const tuner::SearchOutcome outcome, tuner::search(truth.cost_model(), input.job.knobs, options));
    best.lower_bound_ms = std::max(best.lower_bound_ms, outcome.result.lower_bound_ms);
    for (const RankedPlan& ranked : outcome.result.plans) consider(ranked.plan, truth, best);
    if (outcome.result.plans.empty()) continue;
    const double first_ms = outcome.result.plans.front().prediction.iteration_ms;
    best.of_costs_ms = best.of_costs_ms > 0 ? std::min(best.of_costs_ms, first_ms) : first_ms;
  }
  return best;
}

}  // namespace trimtab::coordinator
