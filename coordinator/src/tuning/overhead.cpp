// What trials, the final comparison and growth cost the job, and when that is enough.

#include <algorithm>

#include "tuning/tuning.hpp"

namespace trimtab::coordinator {

// A step of a trial or of the comparison, warm-up included: what it took beyond the incumbent's. The incumbent's own
// measured steps are the job's, and cost nothing. Steps that are thrown away cost all that they take.
void Tuning::account(const JobStep& step) {
  const bool comparing = state_.phase == Phase::kComparing;
  if (!comparing && !state_.has_trial()) return;
  double& excess_ms = comparing ? state_.comparison_excess_ms : state_.trials.back().excess_ms;
  if (runs_trial()) {
    excess_ms += step.wall_ms;
    return;
  }
  const bool incumbents = interleaving_->second_is_next() == comparing;
  if (!incumbents || interleaving_->warming()) excess_ms += step.wall_ms - state_.incumbent_measured.mean_ms;
}

// Ranks stood still for nodes that joined, for the comparison and the way back from it, or for a trial that goes on or
// has just ended.
void Tuning::account_change(double ms) {
  if (grows_) {
    state_.growth_ms += ms;
  } else if (state_.phase == Phase::kComparing || leaves_comparison_) {
    state_.comparison_changes_ms += ms;
  } else if (state_.phase == Phase::kTrials && !state_.trials.empty()) {
    state_.trials.back().changes_ms += ms;
  }
}

// A launch goes on from a snapshot: its first steps were trained before.
void Tuning::account_lost_steps(std::int64_t first) {
  const std::int64_t lost = state_.step - first + 1;
  if (lost <= 0 || !(trial_lost_steps_ || grows_ || state_.phase == Phase::kComparing)) return;
  const double usual_ms = state_.incumbent_measured.mean_ms;
  account_change(static_cast<double>(lost) * (usual_ms > 0 ? usual_ms : state_.step_ms));
}

// The ranks run again. Their first step is the job's own, or was counted among the lost ones.
void Tuning::account_idle_time() {
  if (!idle_since_) return;
  const double own_ms = runs_trial() ? 0 : std::min(state_.step_ms, state_.incumbent_measured.mean_ms);
  account_change(std::max(0.0, milliseconds(now_.monotonic - *idle_since_) - own_ms));
  idle_since_.reset();
}

// What the ranks are about was begun for a trial or the comparison, the way back to the incumbent included.
bool Tuning::is_about_trial() const {
  if (state_.phase == Phase::kComparing) return true;
  if (state_.phase != Phase::kTrials) return false;
  if (state_.has_trial()) return state_.doing != Doing::kAwaitingApproval;
  return state_.doing == Doing::kRollingBack || state_.doing == Doing::kLaunching;
}

}  // namespace trimtab::coordinator
