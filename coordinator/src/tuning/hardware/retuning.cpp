// When the hardware has changed: what the machine does about it. Tuning begins again from the incumbent, or goes on.

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/trial/budget.hpp"
#include "tuning/trial/gains.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

Measured scaled(const Measured& measured, double ratio) {
  return {measured.mean_ms * ratio, measured.low_ms * ratio, measured.high_ms * ratio, measured.steps};
}

// The drift tells what its own plan takes now. Any other plan's time is taken to have changed as much, until it is
// measured again.
void carry_over(const Drift& drift, TuningState& state) {
  const double ratio = drift.after_ms / drift.before_ms;
  for (Replaced& one : state.replaced) one.measured = scaled(one.measured, ratio);
  Measured& measured = state.incumbent_measured;
  const double sigma = measured.mean_ms > 0 ? measured.sigma_ms() / measured.mean_ms : 0.02;
  const double reach = 1.96 * std::max(sigma, 0.01) * drift.after_ms;
  measured = {drift.after_ms, drift.after_ms - reach, drift.after_ms + reach,
              static_cast<int>(drift.noticed_step - drift.since_step)};
}

// What is known of the incumbent's time was measured since the drift; else the drift of another plan is all that tells.
bool is_of_the_machine_now(const Drift& drift, const TuningState& state) {
  if (drift.plan_hash == state.incumbent.hash) return true;
  return std::ranges::any_of(state.trials, [&](const Trial& one) {
    return one.state == TrialState::kAdopted && one.plan.hash == state.incumbent.hash &&
           one.begun_step >= drift.since_step;
  });
}

}  // namespace

void Tuning::watch_for_drift(const JobStep& step) {
  if (state_.doing == Doing::kProbing || !state_.believes(step.wall_ms)) return;
  const bool calm = view_.is_calm();
  if (state_.phase == Phase::kTraining && calm && hardware_.is_due()) return explain_drift();
  const auto change = hardware_.add_step(step);
  if (!change) return;
  carry_over(hardware_.notice(*change, step.step, calm ? "" : state_.purpose()), state_);
  if (state_.doing == Doing::kAwaitingApproval) withdraw_question("the incumbent's step time has changed");
  if (state_.hardware.waits_to_retune(state_.step)) return hardware_.note_wait();
  const bool searches = state_.phase == Phase::kTrials && state_.doing == Doing::kSearching;
  if (view_.is_calm() || searches) return explain_drift();
  if (!interleaving_) return;
  out_.note("drift",
            "what is measured in turn is not wrong by it and goes on; what has changed is looked for after it");
}

// Nothing is under way and the job trains: what is to be done besides.
void Tuning::train_on() {
  if (state_.job.mode == JobMode::kObserve || state_.stop_asked) return;
  if (hardware_.is_due()) return explain_drift();
  // What is compared later: as the hardware is now, under this plan.
  if (state_.hardware.probed_plan_hash != state_.incumbent.hash) hardware_.look();
  if (state_.elastic.spare.plan.empty() && !searches_.is_asked(SearchFor::kSpare)) prepare_spare();
}

void Tuning::explain_drift() {
  if (!view_.may_retune()) return;
  state_.doing = Doing::kProbing;
  hardware_.probe();
}

void Tuning::on(const HardwareProbed& probed) {
  if (state_.doing == Doing::kProbing) return drift_explained(hardware_.explained(probed));
  const bool told = hardware_.take_look(probed);
  if (!told || hardware_.takes_first_look()) return first_look_over();
  if (hardware_.judge_looks()) retune();
}

void Tuning::drift_explained(bool tune_again) {
  if (tune_again) return retune();
  state_.doing = Doing::kNothing;
  settled();
}

void Tuning::first_look_over() {
  const auto [search_again, reply] = hardware_.end_first_look();
  if (state_.phase != Phase::kTrials || state_.doing != Doing::kSearching) return;
  if (search_again) return request_search();
  if (reply) decide(*reply);
}

void Tuning::search_around_slower() {
  if (searches_.is_lost(SearchFor::kSlowerHardware)) {
    searches_.give_up(SearchFor::kSlowerHardware);
    hardware_.search_again();
  }
  if (!hardware_.take_wish_to_search()) return;
  out_.changed = true;
  searches_.ask(SearchFor::kSlowerHardware, out_);
}

// What was measured before is of another machine: it remains as a prior, less sure where the drift may have changed it.
// Plans that failed stay failed, but for those that hung: what they waited for may be what has changed. A trial that
// began after the drift has said what it has said.
void Tuning::retune() {
  Drift& drift = state_.hardware.drifts.back();
  drift.handled = true;
  state_.doing = Doing::kNothing;
  out_.changed = true;
  if (!enough_steps_for_trial(state_)) {
    if (state_.phase == Phase::kTrials) return finish_trials("the machine has changed, and too few steps are left");
    out_.note("drift", "too few steps are left to tune again");
    if (state_.job.trials.stop_after) end_tuning();
    return;
  }
  out_.decide("tune again", drift.by_look
                                ? drift.what
                                : "the step time has changed from " + format_ms(drift.before_ms) + " to " +
                                      format_ms(drift.after_ms) + (drift.what.empty() ? "" : ": " + drift.what));
  drift.gained_before = gained(state_).value_or(Ratio{});
  state_.observations.clear();
  trials_.forget_passes();
  state_.compared = state_.retuned_compared = false;  // of the hardware as it was
  state_.comparisons_begun = 0;
  state_.earlier_calibration_json = state_.calibration_json;
  state_.begin_trials_anew(drift.since_step);
  drift.trials_before = state_.trials_before_drift;
  if (is_of_the_machine_now(drift, state_)) trials_.observe(state_.incumbent, state_.incumbent_measured);
  state_.trials_before_tuning = state_.trials_begun();
  state_.retuned_from = {state_.incumbent, state_.incumbent_predicted, state_.incumbent_measured};
  hardware_.begin_retuning();
  elastic_.forget_spare();
  if (state_.phase != Phase::kTrials) enter(Phase::kTrials);
  settled();
}

}  // namespace trimtab::coordinator
