#include "tuning/authority.hpp"

#include <utility>

namespace trimtab::coordinator {

std::string View::held_by() const {
  if (state.watched) return "";  // nobody steers it
  if (state.frozen) return "frozen";
  if (!thrown.site.empty()) return thrown.site;
  for (const NodeShare& share : state.nodes) {
    if (thrown.nodes.contains(share.node)) return "the kill switch of node " + share.node + " is thrown";
  }
  return "";
}

bool View::is_calm() const {
  const bool trains_on = state.phase == Phase::kTraining && state.doing == Doing::kNothing;
  const bool asks = state.phase == Phase::kTrials && state.doing == Doing::kAwaitingApproval;
  return lost.empty() && (trains_on || asks);
}

bool View::may_retune() const {
  return !held() && state.job.mode != JobMode::kObserve && !state.stop_asked;
}

Next Authority::handle(const KillSwitches& thrown) {
  const std::string before = m_.view.held_by();
  m_.thrown = thrown;
  const std::string now = m_.view.held_by();
  if (before == now) return {};
  if (now.empty()) return release();
  return before.empty() ? hold(FailureReason::kKillSwitch) : Next{};
}

// `reason` is a trial's, which says nothing about its plan.
Next Authority::hold(const Reason& reason) {
  const std::string why = m_.view.held_by();
  m_.out.changed = true;
  m_.out.note("plan", why + ": the ranks stay on the incumbent until it is taken back");
  m_.out.decide("hold the plan", why);
  if (m_.state.has_trial() && m_.state.doing != Doing::kAwaitingApproval) {
    m_.fail_trial(reason, why + " in the middle of the trial", false);
    return {Next::kRollBack};
  }
  // A launch is the incumbent's, and no comparison begins after it while this holds.
  const bool compares = m_.state.phase == Phase::kComparing && m_.state.doing != Doing::kLaunching;
  return {compares ? Next::kRollBack : Next::kNothing};
}

Next Authority::freeze() {
  return std::exchange(m_.state.frozen, true) ? Next{} : hold(FailureReason::kFrozen);
}

Next Authority::unfreeze() {
  return std::exchange(m_.state.frozen, false) ? release() : Next{};
}

Next Authority::keep_own_plan() {
  TuningState& state = m_.state;
  const std::string before = state.incumbent.hash;
  const Next held = freeze();
  if (state.initial.empty() || !m_.return_to_initial()) return held;
  // One that awaits approval: it was to be measured beside what is left now.
  if (state.has_trial()) m_.fail_trial(FailureReason::kFrozen, "the plan that the job began with is wanted", false);
  m_.out.decide("go back to the plan that the job began with", "a person wants it, instead of " + before);
  m_.out.note("plan", "the job goes back to the plan that it began with, and keeps it", state.initial.json);
  return {steers_ranks(state.phase) && state.doing != Doing::kHalted ? Next::kRollBack : Next::kNothing};
}

// Of two reasons the last is gone.
Next Authority::release() {
  m_.out.changed = true;
  if (m_.view.held()) return {};
  m_.out.note("plan", "plans may change again");
  m_.out.decide("hold the plan no longer", "neither frozen nor a kill switch thrown");
  if (m_.state.doing != Doing::kNothing) return {};
  if (m_.state.phase == Phase::kTrials) return trying_.go_on();
  if (m_.state.phase == Phase::kTraining) retuning_.train_on();  // a drift may have been noticed meanwhile
  return {};
}

}  // namespace trimtab::coordinator
