#pragma once

// Cluster, jobs and trials as tables. Pure.

#include <string>
#include <vector>

#include "jobs/job_state.hpp"

namespace trimtab::cli {

[[nodiscard]] std::string describe(const ClusterState& cluster);
// One job: how far it is, why its plan must stay, what it runs and what is tried.
[[nodiscard]] std::string describe(const JobState& job);
[[nodiscard]] std::string describe(const std::vector<TrialState>& trials);

// The job that a verb means: `wanted`, else the only one, else the only active one; the error lists what there is.
[[nodiscard]] Result<std::string> choose_job(const ClusterState& cluster, const std::string& wanted);

}  // namespace trimtab::cli
