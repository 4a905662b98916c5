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

void Tuning::restart_connected(std::int32_t rank, const RankConnected& connected) {
  if (!restart_ || state_.doing != Doing::kLaunching) return;
  restart_->told.groups_ms = std::max(restart_->told.groups_ms, connected.groups_ms);
  restart_->told.build_ms = std::max(restart_->told.build_ms, connected.build_ms);
  restart_->connected_ranks.insert(rank);
  const bool all = std::cmp_equal(restart_->connected_ranks.size(), state_.world_size());
  if (all && restart_->connected.count() == 0) restart_->connected = now_.monotonic;
}

// What nobody told of is part of the stage after it.
SwitchPhases Tuning::phases_of(const Restart& restart) const {
  SwitchPhases phases = restart.told;
  Nanoseconds last = restart.began;
  const auto until = [&last](Nanoseconds moment) {
    if (moment <= last) return 0.0;
    return milliseconds(moment - std::exchange(last, moment));
  };
  phases.stop_ms = until(restart.ended);
  phases.copy_ms = until(restart.started);
  phases.queue_ms = until(restart.queued);
  const double told_ms = phases.groups_ms + phases.build_ms;
  const double start_ms = until(restart.connected);
  phases.first_step_ms = until(now_.monotonic);
  // Clocks of others: no more of the stage than it took.
  if (told_ms > start_ms) phases.groups_ms = phases.build_ms = 0;
  phases.start_ms = start_ms - phases.groups_ms - phases.build_ms;
  return phases;
}

// The launch has come to its first step.
void Tuning::restarted() {
  Restart restart = std::move(*restart_);
  restart_.reset();
  const double took_ms = milliseconds(now_.monotonic - restart.began);
  const SwitchPhases phases = phases_of(restart);
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

// It saves its checkpoint as it does whenever it is asked to end.
void Tuning::kill_brought_back(const std::string& node) {
  const auto own = brought_back_.find(node);
  if (own == brought_back_.end()) return;
  const CommandTag tag = CommandTag::kill(KillReach::kBroughtBack, own->second, node);
  state_.outstanding.push_back({tag, node, CommandKind::kKill});
  send(state_.outstanding.back());
  brought_back_.erase(own);
}

// With the kill switch thrown and nobody there to say so, the agent has left a trial for the job itself.
void Tuning::take_brought_back(const NodeBack& back) {
  if (!state_.is_restarted()) return;
  for (const RankThere& there : back.ranks) {
    if (there.of_job && there.launch > state_.launch) brought_back_[back.node] = there.launch;
  }
  if (!brought_back_.contains(back.node)) return;
  out_.note("ranks", "node " + back.node + " has brought the job back to the plan that it keeps by itself, as launch " +
                         std::to_string(brought_back_[back.node]) + ": it is launched again under this coordinator");
  if (state_.doing == Doing::kKilling) kill_brought_back(back.node);
}

}  // namespace trimtab::coordinator
