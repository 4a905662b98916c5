#pragma once

// What a target's limits cost: its best plan beside the best of the space that nothing restricts.

#include <string>

#include "base/result.hpp"
#include "tuner/search.hpp"

namespace trimtab::cli {

struct TargetCost {
  std::string target;
  double target_ms = 0;
  RankedPlan free;  // never slower than the target's plan
};

// Searches the same space without the target, by `unified`. `options` are those of the target's search, with what is
// left of the budget; `best` is its best plan.
[[nodiscard]] Result<TargetCost> target_cost(const tuner::CostModel& cost_model, const Knobs& knobs,
                                             tuner::SearchOptions options, const RankedPlan& best);

// "The limits of megatron cost 12.3 %: 374 ms instead of 333 ms for …"
[[nodiscard]] std::string target_cost_text(const TargetCost& cost);
// The search's document with a member "target".
[[nodiscard]] std::string with_target_cost(const std::string& search_json, const TargetCost& cost);

}  // namespace trimtab::cli
