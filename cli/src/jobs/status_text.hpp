#pragma once

// Cluster, jobs and trials as tables. Pure.

#include <string>
#include <vector>

#include "base/result.hpp"
#include "schema/api/status.hpp"

namespace trimtab::cli {

[[nodiscard]] std::string describe(const api::ClusterStatus& cluster);
// One job: how far it is, why its plan must stay, what it runs and what is tried.
[[nodiscard]] std::string describe(const api::Job& job);
[[nodiscard]] std::string describe(const std::vector<api::Trial>& trials);

// The job that a verb means: `wanted`, else the only one, else the only active one; the error lists what there is.
[[nodiscard]] Result<std::string> choose_job(const api::ClusterStatus& cluster, const std::string& wanted);

}  // namespace trimtab::cli
