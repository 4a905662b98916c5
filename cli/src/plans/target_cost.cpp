#include "plans/target_cost.hpp"

#include <nlohmann/json.hpp>

#include "base/numbers.hpp"
#include "plans/plan_text.hpp"

namespace trimtab::cli {

namespace {

double share_of(const TargetCost& cost) {
  return cost.target_ms / cost.free.prediction.iteration_ms - 1;
}

}  // namespace

Result<TargetCost> target_cost(const tuner::CostModel& cost_model, const Knobs& knobs, tuner::SearchOptions options,
                               const RankedPlan& best) {
  TargetCost cost{options.target, best.prediction.iteration_ms, best};
  options.target.clear();
  options.strategy = "unified";
  options.plans = 1;
  options.start = best.plan;
  TRIMTAB_TRY(const tuner::SearchOutcome outcome, tuner::search(cost_model, knobs, options));
  // Where the space cannot express the target's plan, or time ran out, the best that is known stands.
  const auto& plans = outcome.result.plans;
  if (!plans.empty() && plans.front().prediction.iteration_ms < cost.target_ms) cost.free = plans.front();
  return cost;
}

std::string target_cost_text(const TargetCost& cost) {
  if (share_of(cost) < 0.0005) return "The limits of " + cost.target + " cost nothing that was found.\n";
  return "The limits of " + cost.target + " cost " + format_percent(share_of(cost)) + ": " + format_ms(cost.target_ms) +
         " instead of " + format_ms(cost.free.prediction.iteration_ms) + " in the free space, with " +
         one_line(cost.free.plan) + "\n";
}

std::string with_target_cost(const std::string& search_json, const TargetCost& cost) {
  auto json = nlohmann::ordered_json::parse(search_json);
  json["target"] = {{"name", cost.target},
                    {"limits_cost", share_of(cost)},
                    {"free_ms", cost.free.prediction.iteration_ms},
                    {"free_plan", nlohmann::ordered_json::parse(to_json(cost.free.plan))}};
  return json.dump();
}

}  // namespace trimtab::cli
