// What trials cost the job, and when that is enough.

#include "tuning/tuning.hpp"

namespace trimtab::coordinator {

// A trial's step, warm-up included: what it took beyond the incumbent's. The incumbent's own measured steps are the
// job's, and cost nothing. Steps that are thrown away cost all that they take.
void Tuning::account(const JobStep& step) {
  if (!state_.has_trial()) return;
  if (runs_trial()) {
    state_.trials.back().excess_ms += step.wall_ms;
    return;
  }
  const bool incumbents_own = !interleaving_->second_is_next() && !interleaving_->warming();
  if (!incumbents_own) state_.trials.back().excess_ms += step.wall_ms - state_.incumbent_measured.mean_ms;
}

// Ranks stood still for a trial that goes on or has just ended.
void Tuning::account_change(double ms) {
  if (state_.phase == Phase::kTrials && !state_.trials.empty()) state_.trials.back().changes_ms += ms;
}

}  // namespace trimtab::coordinator
