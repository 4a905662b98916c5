// A restarted job's loss and gradient norm after a change of plan: what spoils them is left for the plan before it, and
// what it has trained is not saved.

#include "tuning/tuning.hpp"

namespace trimtab::coordinator {

// True when the step's plan is left for what it told.
bool Tuning::spoils(const JobStep& step) {
  const std::string* const plan = state_.hash_of(step.epoch);
  const bool is_told = state_.is_restarted() && plan != nullptr && steers_ranks_now();
  if (!is_told || (state_.runs_trial() && !state_.has_trial())) return false;
  LearningWatch& watch = state_.runs_trial() ? trial_learning_ : state_.learning;
  const bool another = watch.runs(*plan, step.step);
  const bool watched = watch.watching();
  const std::string why = watch.judge({step.loss, step.gradient_norm, step.not_finite});
  if (another || watched != watch.watching()) out_.changed = true;
  if (why.empty()) return false;
  if (!state_.runs_trial()) return leave_spoilt(why);
  trial_launch_failed(FailureReason::kLoss, why);
  return true;
}

// Ranks that are being ended may tell of steps yet.
bool Tuning::steers_ranks_now() const {
  const bool steers = steers_ranks(state_.phase) || state_.phase == Phase::kLaunching;
  return steers && !state_.wants_no_ranks() && lost_.empty();
}

bool Tuning::leave_spoilt(const std::string& why) {
  const std::int64_t since = state_.learning.since_step;
  state_.learning.stop();
  if (!give_back_incumbent(FailureReason::kLoss, why)) {
    out_.note("warning", why + ". There is no plan before it to go back to");
    return false;
  }
  state_.spoilt_step = since;
  overhead_.blame_trial(true);
  roll_back();
  return true;
}

// The job runs again. Where it had saved its checkpoint meanwhile, nobody can take back what is in there.
void Tuning::left_spoilt() {
  if (state_.spoilt_step < 0) return;
  const bool saved = state_.step > state_.spoilt_step;
  out_.note(saved ? "warning" : "plan",
            saved ? "the job had saved its checkpoint under the plan that it left: the updates of steps " +
                        std::to_string(state_.spoilt_step) + " to " + std::to_string(state_.step - 1) + " stay"
                  : "the job goes on from its checkpoint from before the plan that it left");
  state_.spoilt_step = -1;
}

// An adopted plan is watched in the job's own steps before anything else is tried.
bool Tuning::watches_learning() const {
  return state_.is_restarted() && state_.learning.watching() && state_.learning.knows();
}

}  // namespace trimtab::coordinator
