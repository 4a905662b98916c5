#include "jobs/job_state.hpp"

#include <utility>

namespace trimtab::cli {

bool trains_on(const api::JobSummary& job) {
  return job.active && job.phase == Phase::kTraining && job.doing == Doing::kNothing;
}

bool is_halted(const api::JobSummary& job) {
  return job.active && job.doing == Doing::kHalted;
}

bool is_over(const api::Trial& trial) {
  return trial.state == TrialState::kFailed || trial.state == TrialState::kAdopted ||
         trial.state == TrialState::kRejected;
}

std::optional<Plan> plan_of(const api::CarriedPlan& carried) {
  auto plan = parse_plan(carried.json, "plan");
  return plan.ok() ? std::optional(std::move(plan).value()) : std::nullopt;
}

}  // namespace trimtab::cli
