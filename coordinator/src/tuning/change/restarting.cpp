// Delivery "restart": a plan change is a stop and a new launch. In a trial the job is asked to end (its ranks get
// SIGTERM and time to write a checkpoint), and both plans run as launches of their own, of variant "trial", from a copy
// of that checkpoint, for as many steps as their blocks have; what they train is thrown away. Then the job itself goes
// on from its own checkpoint, with the plan that won.

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

// A plan has at most two blocks in a row (A B B A), and ends by being killed: these are the most steps that it can
// need.
constexpr std::int64_t kBlocksInARow = 2;
// The first step tells that the launch runs, one may be under way when the blocks are complete, and warm-up may last.
constexpr std::int64_t kFurtherSteps = 2 + kMostUnsettled;

}  // namespace

void Tuning::begin_restart(const PlanText& plan, ChangePurpose purpose) {
  const bool of_block = purpose == ChangePurpose::kBlock;
  if (of_block && state_.has_trial()) trials_.set_state(TrialState::kStaged);
  Restart restart;
  restart.plan = plan;
  restart.of_block = of_block;
  restart.began = now_.monotonic;
  if (of_block) restart.interleaving = std::move(interleaving_);
  kill_ranks(AfterKill::kRestart);
  restart_ = std::move(restart);
  overhead_.stand_still();
}

void Tuning::launch_restart() {
  // Whoever comes after a coordinator's end knows of no change: the job itself goes on.
  if (restart_) restart_->ended = now_.monotonic;
  if (!restart_ || !restart_->of_block) return launch_ranks(state_.incumbent, "", false, 0);
  const TrialSettings& settings = state_.job.trials;
  // Counted from the job's begin, as the job counts them.
  const std::int64_t measured = kBlocksInARow * settings.measure_steps;
  const std::int64_t steps = state_.step + 1 + settings.warmup_steps + measured + kFurtherSteps;
  launch_ranks(PlanText(restart_->plan), std::string(kTrialVariant), false, steps);
}

// The launch has come to its first step.
void Tuning::restarted() {
  Restart restart = std::move(*restart_);
  restart_.reset();
  const double took_ms = milliseconds(now_.monotonic - restart.began);
  const SwitchPhases phases = restart.phases(now_.monotonic);
  if (!restart.of_block) {
    rollbacks_ = 0;
    out_.note("plan", "the job goes on with the incumbent, from its own checkpoint, after " + format_ms(took_ms) +
                          " (" + phases.words() + ")");
    return settled();
  }
  interleaving_ = std::move(restart.interleaving);
  running_.set(restart.plan.hash);
  if (state_.has_trial() && restart.plan.hash == state_.trials.back().plan.hash) {
    trials_.changed_to_candidate(took_ms, phases);
  }
  if (state_.has_trial()) overhead_.learn_change(took_ms);
  begin_block(true);
  out_.changed = true;
}

// A launch of a trial failed: the job itself is well, and goes on where it was stopped.
void Tuning::trial_launch_failed(const Reason& reason, const std::string& why) {
  const std::string candidate = state_.has_trial() ? state_.trials.back().plan.hash : "";
  restart_.reset();
  const bool blamed = state_.launch_plan.hash == candidate && !is_interruption(reason.kind());
  if (state_.has_trial()) fail_trial(reason, why, blamed);
  if (state_.phase == Phase::kComparing) out_.note("warning", "the final comparison failed: " + why);
  begin_restart(state_.incumbent, ChangePurpose::kRollback);
}

// True when the step's plan is left for what it told of loss and gradient norm.
bool Tuning::spoils(const JobStep& step) {
  const std::string why = learning_.judge(step);
  if (why.empty()) return false;
  if (state_.runs_trial()) {
    trial_launch_failed(FailureReason::kLoss, why);
    return true;
  }
  const std::int64_t since = learning_.stop();
  if (!give_back_incumbent(FailureReason::kLoss, why)) {
    out_.note("warning", why + ". There is no plan before it to go back to");
    return false;
  }
  learning_.leave(since);
  overhead_.blame_trial(true);
  roll_back();
  return true;
}

}  // namespace trimtab::coordinator
