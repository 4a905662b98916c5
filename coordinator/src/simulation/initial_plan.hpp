#pragma once

// The plan that a simulated job begins with. A job that is to be tuned runs, so it truly fits: what somebody would have
// written down, else the plain result of trying until one launch lived.

#include <string>

#include "base/result.hpp"
#include "coordinator/simulation.hpp"
#include "schema/cluster.hpp"
#include "schema/model.hpp"
#include "simulation/ground_truth.hpp"

namespace trimtab::coordinator {

// A plan.json: the job's own where it names one. Fails where no plan of the job's knobs is found that truly fits, with
// the reason of the search that knew all memory.
[[nodiscard]] Result<std::string> initial_plan(const SimulationInput& input, const Model& model, const Cluster& cluster,
                                               GroundTruth& truth);

}  // namespace trimtab::coordinator
