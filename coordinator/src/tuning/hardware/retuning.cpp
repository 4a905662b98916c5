#include "tuning/hardware/retuning.hpp"

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/trial/budget.hpp"
#include "tuning/trial/gains.hpp"

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

Next Retuning::watch(const JobStep& step) {
  TuningState& state = m_.state;
  if (state.doing == Doing::kProbing || !state.believes(step.wall_ms)) return {};
  const bool calm = m_.view.is_calm();
  if (state.phase == Phase::kTraining && calm && m_.hardware.is_due()) {
    m_.explain_drift();
    return {};
  }
  const auto change = m_.hardware.add_step(step);
  if (!change) return {};
  carry_over(m_.hardware.notice(*change, step.step, calm ? "" : state.purpose()), state);
  if (state.doing == Doing::kAwaitingApproval) return {Next::kWithdraw, "the incumbent's step time has changed"};
  return noticed();
}

Next Retuning::noticed() {
  const TuningState& state = m_.state;
  const bool searches = state.phase == Phase::kTrials && state.doing == Doing::kSearching;
  if (state.hardware.waits_to_retune(state.step)) {
    m_.hardware.note_wait();
  } else if (m_.view.is_calm() || searches) {
    m_.explain_drift();
  } else if (m_.activity.get<Measuring>() != nullptr) {
    m_.out.note("drift",
                "what is measured in turn is not wrong by it and goes on; what has changed is looked for after it");
  }
  return {};
}

void Retuning::train_on() {
  if (m_.state.job.mode == JobMode::kObserve || m_.state.stop_asked) return;
  if (m_.hardware.is_due()) return m_.explain_drift();
  // What is compared later: as the hardware is now, under this plan.
  if (m_.state.hardware.probed_plan_hash != m_.state.incumbent.hash) m_.hardware.look();
  m_.elastic.prepare_spare();
}

Next Retuning::handle(const HardwareProbed& probed) {
  if (m_.state.doing == Doing::kProbing && measuring_again() == nullptr)
    return explained(m_.hardware.explained(probed));
  const bool told = m_.hardware.take_look(probed);
  if (!told || m_.hardware.takes_first_look()) return first_look_over();
  return m_.hardware.judge_looks() ? retune() : Next{};
}

Next Retuning::not_explained() {
  if (measuring_again() != nullptr) return not_measured("the ranks did not answer within the deadline");
  return explained(m_.hardware.not_explained("nobody answered within the deadline"));
}

Next Retuning::explained(bool tune_again) {
  if (tune_again) return retune();
  m_.activity.become(Doing::kNothing);
  return {Next::kSettle};
}

Next Retuning::first_look_over() {
  const auto [search_again, reply] = m_.hardware.end_first_look();
  if (m_.state.phase != Phase::kTrials || m_.state.doing != Doing::kSearching) return {};
  if (search_again) {
    m_.request_search();
    return {};
  }
  return reply ? trying_.decide(*reply) : Next{};
}

// What was measured before is of another machine: it remains as a prior, less sure where the drift may have changed it.
// Plans that failed stay failed, but for those that hung: what they waited for may be what has changed. A trial that
// began after the drift has said what it has said.
Next Retuning::retune() {
  Drift& drift = m_.state.hardware.drifts.back();
  drift.handled = true;
  m_.activity.become(Doing::kNothing);
  m_.out.changed = true;
  if (!enough_steps_for_trial(m_.state)) {
    if (m_.state.phase == Phase::kTrials)
      return {Next::kFinishTrials, "the machine has changed, and too few steps are left"};
    m_.out.note("drift", "too few steps are left to tune again");
    return {m_.state.job.trials.stop_after ? Next::kEndTuning : Next::kNothing};
  }
  m_.out.decide("tune again", drift.by_look
                                  ? drift.what
                                  : "the step time has changed from " + format_ms(drift.before_ms) + " to " +
                                        format_ms(drift.after_ms) + (drift.what.empty() ? "" : ": " + drift.what));
  if (const auto gain = gained(m_.state)) {
    drift.gained_before = gain->ratio;
    drift.gained_in = gain->trials;
  }
  m_.state.observations.clear();
  m_.trials.forget_passes();
  m_.state.compared = m_.state.retuned_compared = false;  // of the hardware as it was
  m_.state.comparisons_begun = 0;
  m_.state.earlier_calibration_json = m_.state.calibration_json;
  m_.state.begin_trials_anew(drift.since_step);
  drift.trials_before = m_.state.trials_before_drift;
  if (is_of_the_machine_now(drift, m_.state)) m_.trials.observe(m_.state.incumbent, m_.state.incumbent_measured);
  m_.state.trials_before_tuning = m_.state.trials_begun();
  m_.state.retuned_from = {m_.state.incumbent, m_.state.incumbent_predicted, m_.state.incumbent_measured};
  m_.hardware.begin_retuning();
  m_.elastic.forget_spare();
  return {Next::kTune};
}

}  // namespace trimtab::coordinator
