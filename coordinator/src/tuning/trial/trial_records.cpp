#include "tuning/trial/trial_records.hpp"

#include <algorithm>

namespace trimtab::coordinator {

double Trial::overhead_ms() const {
  return changes_ms + std::max(0.0, excess_ms);
}

bool TrialRecords::has_trial() const {
  return !trials.empty() && !has_ended(trials.back().state);
}

void TrialRecords::begin_trials_anew(std::int64_t since_step) {
  for (const Trial& trial : trials) {
    if (trial.begun_step < since_step) trials_before_drift = std::max(trials_before_drift, trial.id);
  }
  forgotten.tried.clear();
  hung_hashes.clear();
}

bool TrialRecords::was_tried(const std::string& plan_hash) const {
  if (std::find(forgotten.tried.begin(), forgotten.tried.end(), plan_hash) != forgotten.tried.end()) return true;
  int blameless = 0;
  for (const Trial& trial : trials) {
    if (trial.id <= trials_before_drift || trial.plan.hash != plan_hash) continue;
    const bool blamed = trial.state != TrialState::kFailed || !is_blameless(trial.reason.kind());
    if (blamed || ++blameless > 1) return true;
  }
  return false;
}

}  // namespace trimtab::coordinator
