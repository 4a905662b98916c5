#pragma once

// What a coordinator's words about a job mean to who waits for it. Pure.

#include <optional>

#include "schema/api/job.hpp"
#include "schema/plan.hpp"

namespace trimtab::cli {

// Tuning is over and the job trains on with the plan that it keeps.
[[nodiscard]] bool trains_on(const api::JobSummary& job);
// Its ranks crashed too often: nothing runs until it is handed in again.
[[nodiscard]] bool is_halted(const api::JobSummary& job);
// Nothing more will happen to it.
[[nodiscard]] bool is_over(const api::Trial& trial);
// Nothing where there is none, or one that this release cannot read.
[[nodiscard]] std::optional<Plan> plan_of(const api::CarriedPlan& carried);

}  // namespace trimtab::cli
