#pragma once

// Cluster, jobs and trials as tables. Pure.

#include <string>
#include <vector>

#include "job_state.hpp"

namespace trimtab::cli {

[[nodiscard]] std::string describe(const ClusterState& cluster);
[[nodiscard]] std::string describe(const std::vector<TrialState>& trials);

// The job that a verb means: `wanted`, else the only one, else the only active one; the error lists what there is.
[[nodiscard]] Result<std::string> choose_job(const ClusterState& cluster, const std::string& wanted);

}  // namespace trimtab::cli
