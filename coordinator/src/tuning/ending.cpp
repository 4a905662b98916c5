// How tuning ends, and the job.

#include <algorithm>
#include <utility>

#include "tuning/tuning.hpp"

namespace trimtab::coordinator {

void Tuning::finish_trials(const std::string& why, bool searched) {
  state_.conclusion = why;
  if (searched && !state_.hardware.drifts.empty()) {
    Drift& last = state_.hardware.drifts.back();
    const std::string& begun_with = state_.retuned_from.plan.hash;
    last.kept = last.trials_before >= 0 && last.plan_hash == begun_with && state_.incumbent.hash == begun_with;
  }
  out_.note("result", "tuning ends: " + why);
  out_.decide("end tuning", why);
  // The initial plan is of no interest any more after a drift.
  const bool is_of_before = state_.compares_initial() && !state_.hardware.drifts.empty();
  if (state_.incumbent.hash == state_.compared_plan().hash || is_of_before) return end_tuning();
  enter(Phase::kComparing);
  begin_comparison();
}

// The job keeps the incumbent. It trains on, or ends when its file says so.
void Tuning::end_tuning() {
  state_.tuned_wall_ns = now_.wall.count();
  overhead_.leave_comparison(state_.phase == Phase::kComparing);
  enter(Phase::kTraining);
  if (state_.job.trials.stop_after) return stop_ranks();
  state_.loss_note = "not compared: the tuned job trains on (trials.after = \"continue\")";
  if (!running_.is(state_.incumbent) || state_.runs_trial()) return roll_back();
  train_on();
}

void Tuning::stop_ranks() {
  cancel_change();
  interleaving_.reset();
  enter(Phase::kStopping);
  // A restarted job knows SIGTERM alone.
  if (state_.is_restarted()) return kill_ranks(state_.stop_asked ? AfterKill::kStop : AfterKill::kUntuned);
  out_.act(StopRanks{state_.step + 2});
}

// The same first steps with the initial plan and no changes: what the losses should have been. Follows the job's end.
void Tuning::begin_untuned() {
  if (state_.stop_asked) return stopped();
  const auto steps = std::min<std::int64_t>(state_.job.trials.loss_check_steps, std::ssize(state_.losses));
  if (!state_.job.trials.stop_after || state_.trials.empty() || steps < 1) return finish();
  if (state_.phase != Phase::kUntuned) state_.relaunches = 0;
  state_.untuned_losses.clear();
  enter(Phase::kUntuned);
  launch_ranks(state_.initial, "untuned", true, steps);
}

void Tuning::finish() {
  state_.finished_wall_ns = now_.wall.count();
  if (state_.tuned_wall_ns == 0) state_.tuned_wall_ns = state_.finished_wall_ns;
  enter(Phase::kFinished);
}

void Tuning::fail(const std::string& why) {
  state_.failure = why;
  state_.finished_wall_ns = now_.wall.count();
  out_.note("warning", why);
  out_.decide("give the job up", why);
  enter(Phase::kFailed);
}

void Tuning::stopped() {
  state_.loss_note = "not compared: the job was stopped";
  state_.finished_wall_ns = now_.wall.count();
  enter(Phase::kStopped);
}

// The job ends, and a node that its last steps or its ranks' end wait for has not come back. True when it goes without.
bool Tuning::end_without_lost() {
  const bool is_last = state_.ends() || state_.phase == Phase::kStopping || state_.phase == Phase::kUntuned;
  if (!is_last || now_.monotonic - lost_at_ <= state_.job.trials.deadline) return false;
  const bool waits =
      state_.doing != Doing::kKilling ||
      std::ranges::any_of(state_.outstanding, [this](const auto& one) { return lost_.contains(one.node); });
  if (!waits) return false;
  out_.note("warning",
            "a node did not come back within the deadline: the job ends without, and what runs there is ended "
            "when it comes back");
  if (state_.stop_asked) {
    kill_reachable(AfterKill::kStop);
  } else if (state_.ends()) {
    kill_reachable(AfterKill::kFail);
  } else {
    state_.loss_note = "not compared: a node was lost for good at the job's end";
    kill_reachable(AfterKill::kFinish);
  }
  return true;
}

void Tuning::user_stop() {
  if (state_.stop_asked) return;
  state_.stop_asked = true;
  out_.changed = true;
  if (!state_.has_ranks()) return end_preparation(AfterKill::kStop);
  if (state_.doing == Doing::kHalted) return stopped();
  if (state_.has_trial()) fail_trial(FailureReason::kStopped, "the job was stopped", false);
  if (!lost_.empty()) {
    out_.note("warning", "stopped while a node is away: what runs there is ended when it comes back");
    return kill_reachable(AfterKill::kStop);
  }
  // A launch that has not come to its first step cannot agree on a last one.
  const bool apart = state_.phase == Phase::kUntuned || state_.runs_trial();
  if (state_.doing == Doing::kLaunching || apart) return kill_ranks(AfterKill::kStop);
  if (state_.doing == Doing::kKilling) {
    state_.after_kill = AfterKill::kStop;
    return;
  }
  if (state_.phase != Phase::kStopping) stop_ranks();
}

// Before the first launch. A description or benchmark that runs must not share its devices with whatever follows: its
// end is waited for.
void Tuning::end_preparation(AfterKill after) {
  state_.after_kill = after;
  if (std::exchange(state_.outstanding, {}).empty()) return ranks_killed();
  enter(Phase::kStopping);
  kill_reachable(after, state_.launch > 0 ? KillReach::kAll : KillReach::kLaunch);
}

}  // namespace trimtab::coordinator
