// After tuning: does the incumbent still take what it took? If not, the tuning begins again from it.

#include <cmath>

#include "base/numbers.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {

void Tuning::watch_for_drift(const JobStep& step) {
  if (state_.phase != Phase::kTraining || state_.doing != Doing::kNothing || !running(state_.incumbent)) {
    return change_point_.reset();
  }
  if (!change_point_) change_point_.emplace();
  const auto change = change_point_->add(step.step, step.wall_ms);
  if (!change) return;
  change_point_.reset();
  const Drift drift{change->since_step, step.step, change->before_ms, change->after_ms};
  state_.drifts.push_back(drift);
  transition();
  note("drift", "since step " + std::to_string(drift.since_step) + " a step of the incumbent takes " +
                    format_ms(drift.after_ms) + " beside " + format_ms(drift.before_ms) +
                    " before: " + format_fixed(drift.after_ms / drift.before_ms, 2) + " times as long");
  retune(drift);
}

// What was measured before is of another machine: it remains as a prior, less sure by the size of the change. Plans
// that failed stay failed.
void Tuning::retune(const Drift& drift) {
  if (state_.frozen || state_.job.mode == JobMode::kObserve || state_.stop_asked) return;
  if (!enough_steps_for_trial()) return note("drift", "too few steps are left to tune again");
  state_.observations.clear();
  state_.earlier_calibration_json = state_.calibration_json;
  state_.trials_before_drift = static_cast<std::int32_t>(state_.trials.size());
  const double sigma = state_.incumbent_measured.mean_ms > 0
                           ? state_.incumbent_measured.sigma_ms() / state_.incumbent_measured.mean_ms
                           : 0.02;
  const double reach = 1.96 * std::max(sigma, 0.01) * drift.after_ms;
  state_.incumbent_measured = {drift.after_ms, drift.after_ms - reach, drift.after_ms + reach,
                               static_cast<int>(drift.noticed_step - drift.since_step)};
  observe(state_.incumbent, state_.incumbent_measured);
  enter(Phase::kTrials);
  settled();
}

}  // namespace trimtab::coordinator
