// What a person may forbid: a frozen job and a thrown kill switch keep the ranks on the incumbent.

#include <utility>

#include "tuning/tuning.hpp"

namespace trimtab::coordinator {

void Tuning::on(const KillSwitches& thrown) {
  const std::string before = view_.held_by();
  kill_switches_ = thrown.nodes;
  const std::string now = view_.held_by();
  if (before == now) return;
  if (now.empty()) return release();
  if (before.empty()) return hold(FailureReason::kKillSwitch);
}

// `reason` is a trial's, which says nothing about its plan.
void Tuning::hold(const Reason& reason) {
  const std::string why = view_.held_by();
  out_.changed = true;
  out_.note("plan", why + ": the ranks stay on the incumbent until it is taken back");
  out_.decide("hold the plan", why);
  if (state_.has_trial() && state_.doing != Doing::kAwaitingApproval) {
    fail_trial(reason, why + " in the middle of the trial", false);
    return roll_back();
  }
  // A launch is the incumbent's, and no comparison begins after it while this holds.
  if (state_.phase == Phase::kComparing && state_.doing != Doing::kLaunching) roll_back();
}

// Of two reasons the last is gone.
void Tuning::release() {
  out_.changed = true;
  if (view_.held()) return;
  out_.note("plan", "plans may change again");
  out_.decide("hold the plan no longer", "neither frozen nor a kill switch thrown");
  if (state_.doing != Doing::kNothing) return;
  if (state_.phase == Phase::kTrials) return go_on_trying();
  if (state_.phase == Phase::kTraining) train_on();  // a drift may have been noticed meanwhile
}

std::vector<Decision> Tuning::take_decisions() {
  return std::exchange(out_.decisions, {});
}

}  // namespace trimtab::coordinator
