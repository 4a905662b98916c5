#include "tuning/state.hpp"

namespace trimtab::coordinator {
namespace {

bool is_blameless(const Trial& trial) {
  return trial.state == TrialState::kFailed &&
         (trial.reason == "coordinator restarted" || trial.reason == "agent lost" || trial.reason == "frozen" ||
          trial.reason == "agreement timeout" || trial.reason == "snapshot" || trial.reason == "superseded" ||
          trial.reason == "unexpected plan");
}

}  // namespace

bool TuningState::has_trial() const {
  if (trials.empty()) return false;
  const TrialState last = trials.back().state;
  return last != TrialState::kFailed && last != TrialState::kAdopted && last != TrialState::kRejected;
}

bool TuningState::was_tried(const std::string& plan_hash) const {
  int blameless = 0;
  for (const Trial& trial : trials) {
    if (trial.plan.hash != plan_hash) continue;
    if (!is_blameless(trial) || ++blameless > 1) return true;
  }
  return false;
}

}  // namespace trimtab::coordinator
