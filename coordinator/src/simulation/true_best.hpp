#pragma once

// The best plan that is known of a simulated cluster as it is in the end: what regret is measured against. Searched for
// with the true costs, which do not tell all of a plan: so the best of each search are priced as they truly are, and so
// is every plan that the job met, and the fastest of them all counts.

#include <string>

#include "base/result.hpp"
#include "coordinator/simulation.hpp"
#include "simulation/ground_truth.hpp"
#include "tuning/state.hpp"

namespace trimtab::coordinator {

struct TrueBest {
  double ms = 0;
  std::string plan_json;
  // By the true costs alone: the fastest plan that was found, and a time that no plan of the space takes less than.
  double of_costs_ms = 0;
  double lower_bound_ms = 0;  // 0 = no strategy says
};

// By the strategies that may find it, in the space of the job's knobs.
[[nodiscard]] Result<TrueBest> true_best(const SimulationInput& input, GroundTruth& truth, const TuningState& state);

}  // namespace trimtab::coordinator
