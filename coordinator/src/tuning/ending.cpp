// How tuning ends, and the job.

#include <algorithm>
#include <utility>

#include "tuning/trial/gains.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

// What trials have measured, where no comparison at the end says it.
void note_gain(const TuningState& state, Outcome& out) {
  const auto gain = told_gain(state);
  if (!gain || gain->by == api::GainBy::kComparison) return;
  const std::string until =
      gain->until_step ? ", until the machine changed at step " + std::to_string(*gain->until_step) : "";
  out.note("result", gain->is_kept()
                         ? "the adopted plan is " + words(*gain) + until + "; there was no comparison at the end"
                         : "no plan is kept that trials have tried; the best was " + words(*gain));
}

}  // namespace

Next Tuning::finish_trials(const std::string& why, bool searched) {
  TuningState& state = m_.state;
  state.conclusion = why;
  if (searched && !state.hardware.drifts.empty()) {
    Drift& last = state.hardware.drifts.back();
    const std::string& begun_with = state.retuned_from.plan.hash;
    last.kept = last.trials_before >= 0 && last.plan_hash == begun_with && state.incumbent.hash == begun_with;
  }
  m_.out.note("result", "tuning ends: " + why);
  m_.out.decide("end tuning", why);
  // The initial plan is of no interest any more after a drift.
  const bool is_of_before = state.compares_initial() && !state.hardware.drifts.empty();
  if (state.incumbent.hash == state.compared_plan().hash || is_of_before) return end_tuning();
  enter(Phase::kComparing);
  return trying_.begin_comparison();
}

// The job keeps the incumbent. It trains on, or ends when its file says so.
Next Tuning::end_tuning() {
  TuningState& state = m_.state;
  state.tuned_wall_ns = m_.now.wall.count();
  m_.overhead.leave_comparison(state.phase == Phase::kComparing);
  note_gain(state, m_.out);
  enter(Phase::kTraining);
  if (state.job.trials.stop_after) return stop_ranks();
  state.loss_note = "not compared: the tuned job trains on (trials.after = \"continue\")";
  if (!m_.running.is(state.incumbent) || state.runs_trial()) return {Next::kRollBack};
  retuning_.train_on();
  return {};
}

Next Tuning::stop_ranks() {
  m_.activity.cancel(m_.out);
  enter(Phase::kStopping);
  // A restarted job knows SIGTERM alone.
  if (m_.state.is_restarted()) return launch_.kill(m_.state.stop_asked ? AfterKill::kStop : AfterKill::kUntuned);
  m_.out.act(StopRanks{m_.state.step + 2});
  return {};
}

Next Tuning::ranks_killed() {
  switch (m_.state.after_kill) {
    case AfterKill::kRelaunch:
      return launch_incumbent();
    case AfterKill::kRestart:
      changes_.launch_restart();
      return {};
    case AfterKill::kUntuned:
      return begin_untuned();
    case AfterKill::kFinish:
      return end(Phase::kFinished);
    case AfterKill::kFail:
      return end(Phase::kFailed);
    case AfterKill::kStop:
      return end(Phase::kStopped);
    case AfterKill::kHalt:
      launch_.halt();
      return {};
  }
  return {};
}

Next Tuning::ranks_ended() {
  TuningState& state = m_.state;
  if (state.watched) return end(Phase::kFinished);
  if (state.phase == Phase::kUntuned) return end(Phase::kFinished);
  if (state.phase == Phase::kLaunching && state.step == 0) {
    state.conclusion =
        "the job ended well and told of no step: nothing was measured or tuned. docs/targets.md says what tells steps";
    m_.out.note("warning", state.conclusion);
    return end(Phase::kFinished);
  }
  if (state.runs_trial()) {
    return changes_.trial_launch_failed(FailureReason::kJobEnded, "the launch ended before its plan was measured");
  }
  m_.activity.cancel(m_.out);
  if (state.has_trial()) m_.fail_trial(FailureReason::kJobEnded, "the job ended before the trial did", false);
  if (state.phase != Phase::kStopping && state.phase != Phase::kTraining) {
    state.conclusion = "the job ended before tuning did";
    if (trying_.waits()) state.conclusion += ": it wrote no checkpoint after which a trial could have stopped it";
    state.tuned_wall_ns = m_.now.wall.count();
    m_.out.note("warning", state.conclusion);
    note_gain(state, m_.out);
  }
  return begin_untuned();
}

// The same first steps with the initial plan and no changes: what the losses should have been. Follows the job's end.
Next Tuning::begin_untuned() {
  TuningState& state = m_.state;
  if (state.stop_asked) return end(Phase::kStopped);
  const auto steps = std::min<std::int64_t>(state.job.trials.loss_check_steps, std::ssize(state.losses));
  if (!state.job.trials.stop_after || state.trials.empty() || steps < 1) return end(Phase::kFinished);
  if (state.phase != Phase::kUntuned) state.relaunches = 0;
  state.untuned_losses.clear();
  enter(Phase::kUntuned);
  launch_.launch(state.initial, "untuned", true, steps);
  return {};
}

Next Tuning::fail(const std::string& why) {
  m_.state.failure = why;
  return end(Phase::kFailed);
}

Next Tuning::end(Phase phase) {
  TuningState& state = m_.state;
  state.finished_wall_ns = m_.now.wall.count();
  if (state.tuned_wall_ns == 0) note_gain(state, m_.out);
  if (phase == Phase::kFinished && state.tuned_wall_ns == 0) state.tuned_wall_ns = state.finished_wall_ns;
  if (phase == Phase::kStopped) state.loss_note = "not compared: the job was stopped";
  if (phase == Phase::kFailed) {
    m_.out.note("warning", state.failure);
    if (!state.watched) m_.out.decide("give the job up", state.failure);
  }
  enter(phase);
  return {};
}

Next Tuning::user_stop() {
  TuningState& state = m_.state;
  if (std::exchange(state.stop_asked, true)) return {};
  m_.out.changed = true;
  if (!state.has_ranks()) return end_preparation(AfterKill::kStop);
  if (state.doing == Doing::kHalted) return end(Phase::kStopped);
  if (state.has_trial()) m_.fail_trial(FailureReason::kStopped, "the job was stopped", false);
  if (!m_.lost.empty()) {
    m_.out.note("warning", "stopped while a node is away: what runs there is ended when it comes back");
    return launch_.kill_reachable(AfterKill::kStop);
  }
  // A launch that has not come to its first step cannot agree on a last one.
  const bool apart = state.phase == Phase::kUntuned || state.runs_trial();
  if (state.doing == Doing::kLaunching || apart) return launch_.kill(AfterKill::kStop);
  if (state.doing == Doing::kKilling) {
    state.after_kill = AfterKill::kStop;
    return {};
  }
  return state.phase != Phase::kStopping ? stop_ranks() : Next{};
}

// Before the first launch. A description or benchmark that runs must not share its devices with whatever follows: its
// end is waited for.
Next Tuning::end_preparation(AfterKill after) {
  m_.state.after_kill = after;
  if (std::exchange(m_.state.outstanding, {}).empty()) return ranks_killed();
  enter(Phase::kStopping);
  return launch_.kill_reachable(after, m_.state.launch > 0 ? KillReach::kAll : KillReach::kLaunch);
}

}  // namespace trimtab::coordinator
