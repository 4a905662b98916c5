// Delivery "restart": a plan change is a stop and a new launch. In a trial the job is asked to end (its ranks get
// SIGTERM and time to write a checkpoint), and both plans run as launches of their own, of variant "trial", from a copy
// of that checkpoint, for as many steps as their blocks have; what they train is thrown away. Then the job itself goes
// on from its own checkpoint, with the plan that won.

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/change/plan_changes.hpp"

namespace trimtab::coordinator {
namespace {

// A plan has at most two blocks in a row (A B B A), and ends by being killed: these are the most steps that it can
// need.
constexpr std::int64_t kBlocksInARow = 2;
// The first step tells that the launch runs, one may be under way when the blocks are complete, and warm-up may last.
constexpr std::int64_t kFurtherSteps = 2 + kMostUnsettled;

}  // namespace

void Restart::connect(std::int32_t rank, const RankConnected& rank_connected, std::int32_t world_size,
                      Nanoseconds now) {
  told.groups_ms = std::max(told.groups_ms, rank_connected.groups_ms);
  told.build_ms = std::max(told.build_ms, rank_connected.build_ms);
  connected_ranks.insert(rank);
  const bool all = std::cmp_equal(connected_ranks.size(), world_size);
  if (all && connected.count() == 0) connected = now;
}

ChangePhases Restart::phases(Nanoseconds now) const {
  ChangePhases phases = told;
  Nanoseconds last = began;
  const auto until = [&last](Nanoseconds moment) {
    if (moment <= last) return 0.0;
    return milliseconds(moment - std::exchange(last, moment));
  };
  phases.stop_ms = until(ended);
  phases.copy_ms = until(started);
  phases.queue_ms = until(queued);
  const double told_ms = phases.groups_ms + phases.build_ms;
  const double start_ms = until(connected);
  phases.first_step_ms = until(now);
  // Clocks of others: no more of the stage than it took.
  if (told_ms > start_ms) phases.groups_ms = phases.build_ms = 0;
  phases.start_ms = start_ms - phases.groups_ms - phases.build_ms;
  return phases;
}

void PlanChanges::begin_restart(const PlanText& plan, std::optional<Measuring> then) {
  if (then && m_.state.has_trial()) m_.trials.set_state(TrialState::kStaged);
  if (then && !m_.state.runs_trial()) m_.checkpoints.stop();
  Restart restart{plan, m_.now.monotonic, std::move(then)};
  launch_.kill(AfterKill::kRestart);
  m_.activity.become(Doing::kKilling, std::move(restart));
  m_.overhead.stand_still();
}

void PlanChanges::launch_restart() {
  // Whoever comes after a coordinator's end knows of no change: the job itself goes on.
  m_.checkpoints.stopped();
  auto* const restart = m_.activity.get<Restart>();
  if (restart != nullptr) restart->ended = m_.now.monotonic;
  if (restart == nullptr || !restart->then) return launch_.launch(m_.state.incumbent, "", false, 0);
  const TrialSettings& settings = m_.state.job.trials;
  // Counted from the job's begin, as the job counts them.
  const std::int64_t measured = kBlocksInARow * restart->then->blocks.measure_steps();
  const std::int64_t steps = m_.state.step + 1 + settings.warmup_steps + measured + kFurtherSteps;
  launch_.launch(restart->plan, std::string(kTrialVariant), false, steps);
}

Next PlanChanges::restarted(Restart restart) {
  const double took_ms = milliseconds(m_.now.monotonic - restart.began);
  const ChangePhases phases = restart.phases(m_.now.monotonic);
  if (!restart.then) {
    rollbacks_ = 0;
    m_.out.note("plan", "the job goes on with the incumbent, from its own checkpoint, after " + format_ms(took_ms) +
                            " (" + phases.words() + ")");
    return {Next::kSettle};
  }
  m_.activity.become(Doing::kMeasuring, *std::move(restart.then));
  m_.running.set(restart.plan.hash);
  if (m_.state.has_trial() && restart.plan.hash == m_.state.trials.back().plan.hash) {
    m_.trials.changed_to_candidate(took_ms, phases);
  }
  if (m_.state.has_trial()) m_.overhead.learn_change(took_ms);
  m_.begin_block(true);
  m_.out.changed = true;
  return {};
}

// The job itself is well, and goes on where it was stopped.
Next PlanChanges::trial_launch_failed(const Reason& reason, const std::string& why) {
  const std::string candidate = m_.state.has_trial() ? m_.state.trials.back().plan.hash : "";
  const bool blamed = m_.state.launch_plan.hash == candidate && !is_blameless(reason.kind());
  if (m_.state.has_trial()) m_.fail_trial(reason, why, blamed);
  if (m_.state.phase == Phase::kComparing) m_.out.note("warning", "the final comparison failed: " + why);
  begin_restart(m_.state.incumbent, std::nullopt);
  return {};
}

std::optional<Next> PlanChanges::spoils(const JobStep& step) {
  const std::string why = m_.learning.judge(step);
  if (why.empty()) return std::nullopt;
  if (m_.state.runs_trial()) return trial_launch_failed(FailureReason::kLoss, why);
  const std::int64_t since = m_.learning.stop();
  if (!m_.give_back_incumbent(FailureReason::kLoss, why)) {
    m_.out.note("warning", why + ". There is no plan before it to go back to");
    return std::nullopt;
  }
  m_.learning.leave(since);
  m_.overhead.blame_trial(true);
  return roll_back();
}

}  // namespace trimtab::coordinator
