#pragma once

// Which plan is tried next, if any. Pure.

#include <vector>

#include "tuning/search/planning.hpp"
#include "tuning/state.hpp"

namespace trimtab::coordinator {

// What the candidate may take if it is lucky: beside the incumbent's measured time where the two predictions' errors
// have been told apart, else the low end of its own interval.
[[nodiscard]] double optimistic_ms(const TuningState& state, const PricedPlan& candidate);
// The most that a plan may take, at its most optimistic, to be worth a trial.
[[nodiscard]] double worthwhile_ms(const TuningState& state);

struct Choice {
  const PricedPlan* best = nullptr;     // null = there is none
  std::vector<PassedOver> near_copies;  // of measured plans, which would be worth a trial otherwise
};
// Of the best few plans that have not been tried and are no near copies of each other or of a measured one, the one
// whose optimistic bound is best.
[[nodiscard]] Choice choose(const TuningState& state, const SearchReply& reply);
// While the job trains on: the plan whose optimistic bound is best; null where none is worth a trial.
[[nodiscard]] const PricedPlan* beside_incumbent(const TuningState& state, const SearchReply& reply);

}  // namespace trimtab::coordinator
