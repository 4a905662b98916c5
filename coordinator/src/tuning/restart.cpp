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

bool Tuning::is_restarted() const {
  return state_.job.delivery == Delivery::kRestart;
}

bool Tuning::runs_trial() const {
  return state_.launch_variant == kTrialVariant;
}

void Tuning::begin_restart(const PlanText& plan, ChangePurpose purpose) {
  const bool of_block = purpose == ChangePurpose::kBlock;
  if (of_block && state_.has_trial()) set_trial(TrialState::kStaged);
  Restart restart{plan, of_block, now_.monotonic, of_block ? std::move(interleaving_) : std::nullopt};
  kill_ranks(AfterKill::kRestart);
  restart_ = std::move(restart);
  if (!idle_since_) idle_since_ = now_.monotonic;
}

void Tuning::launch_restart() {
  // Whoever comes after a coordinator's end knows of no change: the job itself goes on.
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
  if (!restart.of_block) {
    rollbacks_ = 0;
    note("plan", "the job goes on with the incumbent, from its own checkpoint");
    return settled();
  }
  interleaving_ = std::move(restart.interleaving);
  running_hash_ = restart.plan.hash;
  if (state_.has_trial() && restart.plan.hash == state_.trials.back().plan.hash) {
    Trial& trial = state_.trials.back();
    trial.switch_ms = std::max(trial.switch_ms, milliseconds(now_.monotonic - restart.began));
    set_trial(TrialState::kWarming);
  }
  if (state_.has_trial()) learn_change(milliseconds(now_.monotonic - restart.began));
  begin_block(true);
  transition();
}

// A launch of a trial failed: the job itself is well, and goes on where it was stopped.
void Tuning::trial_launch_failed(const std::string& reason, const std::string& why) {
  const std::string candidate = state_.has_trial() ? state_.trials.back().plan.hash : "";
  restart_.reset();
  const bool blamed = state_.launch_plan.hash == candidate && !is_interruption_named(reason);
  if (state_.has_trial()) fail_trial(reason, why, blamed);
  if (state_.phase == Phase::kComparing) note("warning", "the final comparison failed: " + why);
  begin_restart(state_.incumbent, ChangePurpose::kRollback);
}

// What so many pairs of blocks take of the walltime: a launch for each block, too, and for the job that goes on.
bool Tuning::enough_walltime_for(std::int32_t pairs) const {
  if (state_.job.walltime.count() == 0) return true;
  const TrialSettings& settings = state_.job.trials;
  double launch_ms = 0;
  for (const Trial& trial : state_.trials) launch_ms = std::max(launch_ms, trial.switch_ms);
  if (launch_ms <= 0) launch_ms = milliseconds(settings.deadline);
  const double blocks = 2.0 * pairs;
  const double block_ms = (settings.warmup_steps + settings.measure_steps) * state_.incumbent_measured.mean_ms;
  const double needed_ms = blocks * block_ms + (blocks + 1) * launch_ms;
  const double used_ms = milliseconds(now_.wall) - static_cast<double>(state_.begun_wall_ns) / 1e6;
  return milliseconds(state_.job.walltime) - used_ms > needed_ms;
}

}  // namespace trimtab::coordinator
