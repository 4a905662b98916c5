// Launching, killing and losing ranks and nodes.

#include <algorithm>
#include <utility>

#include "base/units.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::int32_t kRelaunches = 3;  // of the untuned run
// Whose the launches are in which no rank so much as connected: of no plan.
const std::string kNoPlan;

bool is_of_no_plan(const Crash& crash) {
  return crash.plan_hash == kNoPlan;
}

// How long the ranks may be silent. Between a job's own steps nobody but the job knows what takes long: an evaluation,
// a save.
Nanoseconds patience(const TuningState& state) {
  const Nanoseconds deadline = state.job.trials.deadline;
  if (state.doing == Doing::kLaunching || state.doing == Doing::kKilling) return 2 * deadline;
  const bool trains =
      state.phase == Phase::kMeasuring || state.phase == Phase::kTrials || state.phase == Phase::kTraining;
  return trains && !state.is_about_trial() ? std::max(state.job.hang, deadline) : deadline;
}

// A launch of a plan that has trained before, which ended before any rank connected: ranks that cannot reach each
// other, say. That is no fault of the plan, and may end by itself.
bool never_began(const View& view) {
  return view.state.doing == Doing::kLaunching && view.state.phase != Phase::kLaunching && !view.running.is_told() &&
         !view.state.has_grown();
}

}  // namespace

std::string describe_end(std::int32_t rank, const RankExited& exited) {
  std::string how = " exited with code " + std::to_string(exited.exit_code);
  if (exited.signal != 0) how = " was ended by signal " + std::to_string(exited.signal);
  if (exited.signal == 0 && exited.exit_code < 0) how = " ended";  // nobody saw how
  const std::string text = "rank " + std::to_string(rank) + how;
  return exited.last_output.empty() ? text : text + "; its last output: " + exited.last_output;
}

void Tuning::launch_ranks(const PlanText& plan, const std::string& variant, bool fresh, std::int64_t steps) {
  // Where this state was set back to an older copy, agents have had later launches, and start none of those again.
  state_.launch = std::max(state_.launch, launch_seen_) + 1;
  launched_at_ = now_.monotonic;
  state_.launch_epoch = state_.committed_epoch = state_.begin_epoch(plan.hash);
  state_.launch_plan = plan;
  state_.launch_variant = variant;
  state_.launch_fresh = fresh;
  state_.launch_steps = steps;
  state_.doing = Doing::kLaunching;
  change_.reset();
  interleaving_.reset();
  running_.begin_launch();
  assembly_ = StepAssembly(state_.world_size());
  since_change_ = Settling(state_.job.trials.warmup_steps);
  ended_.clear();
  first_end_.clear();
  submission_told_.clear();
  // A restarted trial has several launches, and its plans' peaks and passes are of all of them.
  if (!state_.has_trial()) trials_.forget_told();
  unexpected_steps_ = 0;
  moved_at_ = now_.monotonic;
  commands_.launch();
  out_.changed = true;
}

void Tuning::launched(const CommandFinished& command) {
  moved_at_ = now_.monotonic;
  if (!command.ok) return crashed(FailureReason::kCrash, "launching failed: " + command.error);
  if (restart_ && !state_.is_outstanding(CommandKind::kLaunch)) restart_->started = now_.monotonic;
  // A node came back to a launch that it had not heard of yet.
  if (state_.doing != Doing::kWaitingForNodes || !state_.outstanding.empty() || !lost_.empty()) return;
  if (steers_ranks(state_.phase)) roll_back();
}

void Tuning::kill_ranks(AfterKill after, KillReach reach) {
  cancel_change();
  restart_.reset();
  interleaving_.reset();
  state_.after_kill = after;
  state_.doing = Doing::kKilling;
  moved_at_ = now_.monotonic;
  commands_.kill(reach);
  out_.changed = true;
}

// The job ends: a node that is away is not waited for.
void Tuning::kill_reachable(AfterKill after, KillReach reach) {
  kill_ranks(after, reach);
  commands_.forget_of(lost_);
  if (!state_.is_outstanding(CommandKind::kKill)) ranks_killed();
}

void Tuning::ranks_killed() {
  switch (state_.after_kill) {
    case AfterKill::kRelaunch:
      return launch_incumbent();
    case AfterKill::kRestart:
      return launch_restart();
    case AfterKill::kUntuned:
      return begin_untuned();
    case AfterKill::kFinish:
      return finish();
    case AfterKill::kFail:
      return fail(state_.failure);
    case AfterKill::kStop:
      return stopped();
    case AfterKill::kHalt:
      return halt();
  }
}

void Tuning::launch_incumbent() {
  if (profiles_first()) return profile_anew();
  const bool fresh = state_.phase == Phase::kLaunching && state_.step == 0;
  launch_ranks(state_.incumbent, "", fresh, 0);
}

void Tuning::launch_until_it_begins(const Reason& reason, const std::string& why) {
  const CrashSettings& settings = state_.job.crashes;
  const bool often = crashes_of(state_.crashes, kNoPlan) > settings.limit;
  // There may be very many. The first tells how long this has lasted.
  if (!often) state_.crashes.push_back({now_.wall.count(), state_.step, state_.launch, kNoPlan, why});
  const auto first = std::ranges::find_if(state_.crashes, is_of_no_plan);
  const Nanoseconds lasted(now_.wall.count() - first->wall_ns);
  if (!often || lasted < settings.within) return kill_ranks(AfterKill::kRelaunch);
  give_up_incumbent(reason, "no rank has come to a step for " + format_duration(lasted) + "; last: " + why);
}

// The incumbent has crashed. One that was adopted and does so too often is left for the plan before it; where there is
// none the job is halted, or has failed if it never trained: then there is nothing to go on with.
void Tuning::relaunch(const Reason& reason, const std::string& why) {
  out_.note("ranks", why);
  if (never_began(view_)) return launch_until_it_begins(reason, why);
  const CrashSettings& settings = state_.job.crashes;
  state_.crashes.push_back({now_.wall.count(), state_.step, state_.launch, state_.incumbent.hash, why});
  forget_old(state_.crashes, settings, now_.wall.count(), state_.step);
  const std::int32_t crashes = crashes_of(state_.crashes, state_.incumbent.hash);
  if (elastic_.gives_up_growth(crashes)) return go_back(why);
  if (crashes <= settings.limit) return kill_ranks(AfterKill::kRelaunch);
  give_up_incumbent(reason, "its ranks have crashed " + too_often(crashes, settings) + "; last: " + why);
}

void Tuning::give_up_incumbent(const Reason& reason, const std::string& all) {
  if (give_back_incumbent(reason, all)) return kill_ranks(AfterKill::kRelaunch);
  const bool trained = state_.phase != Phase::kLaunching || !state_.elastic.resizes.empty();
  state_.failure = all;
  kill_ranks(trained ? AfterKill::kHalt : AfterKill::kFail);
}

// With no plan left that runs. State and snapshots stay as they are.
void Tuning::halt() {
  state_.doing = Doing::kHalted;
  out_.changed = true;
  out_.decide("halt the job", state_.failure);
  out_.note("warning", "the job is halted: " + state_.failure +
                           ". Find out why; hand in the same job once more, and it goes on from its last snapshot");
}

void Tuning::resume_halted() {
  if (state_.doing != Doing::kHalted) return;
  state_.failure.clear();
  state_.crashes.clear();
  out_.note("ranks", "somebody asked for the halted job to go on");
  out_.decide("launch the halted job again", "it was handed in once more");
  launch_incumbent();
}

// A crash that was not the incumbent's.
void Tuning::launch_again(const std::string& why) {
  out_.note("ranks", why);
  kill_ranks(AfterKill::kRelaunch);
}

void Tuning::recovered() {
  state_.doing = Doing::kNothing;
  // All ranks have told of a step: the launches are done, also where an agent could not say so yet.
  commands_.forget(CommandKind::kLaunch);
  std::erase_if(state_.crashes, is_of_no_plan);
  overhead_.run_again();
  state_.launch_ms = milliseconds(now_.monotonic - launched_at_);
  out_.note("ranks", "launch " + std::to_string(state_.launch) + " runs");
  if (!state_.runs_trial()) learning_.run_again();
  if (state_.phase == Phase::kLaunching) enter(Phase::kMeasuring);
  if (!lost_.empty()) {
    state_.doing = Doing::kWaitingForNodes;
    out_.changed = true;
    return;
  }
  if (restart_) return restarted();
  // A trial's launch whose trial is over by now: the coordinator or a node was away.
  if (state_.runs_trial()) return roll_back();
  settled();
}

// It holds nothing that anybody needs, so it begins again.
void Tuning::untuned_run_failed(const std::string& why) {
  out_.note("ranks", "the untuned run failed: " + why);
  if (++state_.relaunches <= kRelaunches) return kill_ranks(AfterKill::kUntuned);
  state_.loss_note = "the untuned run failed " + std::to_string(state_.relaunches) + " times, last: " + why;
  kill_ranks(AfterKill::kFinish);
}

void Tuning::crashed(const Reason& reason, const std::string& why) {
  if (state_.wants_no_ranks()) return;
  if (state_.phase == Phase::kUntuned) return untuned_run_failed(why);
  if (state_.phase == Phase::kStopping) {
    out_.note("warning", why);
    return kill_ranks(state_.stop_asked ? AfterKill::kStop : AfterKill::kUntuned);
  }
  if (!state_.has_ranks()) return;
  overhead_.blame_trial(state_.is_about_trial());
  if (state_.is_about_trial()) overhead_.stand_still();
  if (state_.runs_trial()) return trial_launch_failed(reason, why);
  if (state_.has_trial() && state_.doing != Doing::kAwaitingApproval) {
    const std::string& candidate = state_.trials.back().plan.hash;
    const bool moving = change_ && change_->plan.hash == candidate;
    const bool blamed = moving || running_.hash() == candidate || running_.hash().empty();
    fail_trial(reason, why, blamed);
    if (blamed) return launch_again(why);
  }
  // In the final comparison it may be the initial plan's; and ranks whose peers' node is away cannot go on.
  const bool of_another = !running_.hash().empty() && running_.hash() != state_.incumbent.hash;
  if (of_another || !lost_.empty()) return launch_again(why);
  relaunch(reason, why);
}

void Tuning::news(std::int32_t rank, const RankConnected& connected) {
  running_.learn(rank, connected.epoch);
  if (restart_ && state_.doing == Doing::kLaunching) {
    restart_->connect(rank, connected, state_.world_size(), now_.monotonic);
  }
}

void Tuning::news(std::int32_t rank, const RankStep& step) {
  trials_.take_peak(rank, step);
  if (const auto whole = assembly_.add(rank, step)) on_step(*whole);
}

void Tuning::news(std::int32_t rank, const RankPasses& passes) {
  trials_.take_passes(rank, passes);
}

// A goodbye comes before the exit, which is what counts.
void Tuning::news(std::int32_t, const RankSaidBye&) {}

void Tuning::news(std::int32_t rank, const RankExited& exited) {
  if (state_.wants_no_ranks() || !state_.has_ranks()) return;
  if (state_.is_submitted()) return rank_of_submission_ended(rank, exited);
  ended_.insert(rank);
  const bool clean = exited.exit_code == 0 && exited.signal == 0;
  if (!clean && state_.phase != Phase::kStopping) return crashed(FailureReason::kCrash, describe_end(rank, exited));
  if (!clean) out_.note("warning", describe_end(rank, exited));
  if (std::cmp_equal(ended_.size(), state_.world_size())) all_ranks_ended();
}

void Tuning::all_ranks_ended() {
  if (state_.phase == Phase::kUntuned) return finish();
  if (state_.phase == Phase::kLaunching && state_.step == 0) return fail("the job ended without having trained a step");
  if (state_.runs_trial())
    return trial_launch_failed(FailureReason::kJobEnded, "the launch ended before its plan was measured");
  cancel_change();
  interleaving_.reset();
  if (state_.has_trial()) fail_trial(FailureReason::kJobEnded, "the job ended before the trial did", false);
  if (state_.phase != Phase::kStopping && state_.phase != Phase::kTraining) {
    state_.conclusion = "the job ended before tuning did";
    state_.tuned_wall_ns = now_.wall.count();
    out_.note("warning", state_.conclusion);
  }
  begin_untuned();
}

void Tuning::tick_ranks() {
  if (!state_.has_ranks()) return;
  if (state_.doing == Doing::kProbing && hardware_.is_unanswered()) {
    return drift_explained(hardware_.not_explained("nobody answered within the deadline"));
  }
  if (now_.monotonic - moved_at_ <= patience(state_)) return tick_measuring();
  if (state_.doing == Doing::kKilling) {
    out_.note("warning", "no agent confirmed the end of the ranks in time");
    commands_.forget(CommandKind::kKill);
    return ranks_killed();
  }
  silent();
}

// For longer than they may. In mode observe nothing is ended that nobody asked to end.
void Tuning::silent() {
  std::string why = "no sign of life from the ranks for more than " + format_duration(patience(state_));
  if (state_.doing == Doing::kLaunching && !running_.is_told()) {
    why += ", and none since their launch: the program must tell its agent of its steps (docs/targets.md)";
  }
  if (state_.job.mode != JobMode::kObserve || state_.stop_asked) return crashed(FailureReason::kHang, why);
  if (std::exchange(silence_told_, moved_at_) == moved_at_) return;
  out_.note("warning", why + ". The job is in mode observe: nothing is ended");
}

void Tuning::on(const NodeLost& lost) {
  if (state_.ranks_of(lost.node).empty() || !lost_.insert(lost.node).second) return;
  lost_at_ = now_.monotonic;
  out_.changed = true;
  out_.note("warning", "node " + lost.node + " is lost");
  trials_.take_back_blame(lost.node);
  if (!steers_ranks(state_.phase)) return;
  cancel_change();
  restart_.reset();
  interleaving_.reset();
  if (state_.has_trial() && state_.doing != Doing::kAwaitingApproval) {
    fail_trial(FailureReason::kAgentLost, "the agent of node " + lost.node + " fell silent in the middle of the trial",
               false);
  }
  const bool starts = state_.doing == Doing::kLaunching || state_.wants_no_ranks();
  if (!starts && state_.doing != Doing::kAwaitingApproval) state_.doing = Doing::kWaitingForNodes;
}

void Tuning::on(const NodeBack& back) {
  launch_seen_ = std::max(launch_seen_, back.launch);
  if (state_.ranks_of(back.node).empty()) return commands_.kill_strays(back);
  const bool was_lost = lost_.erase(back.node) > 0;
  moved_at_ = now_.monotonic;
  compare_hardware(back);
  if (is_final(state_.phase)) return;
  commands_.take_brought_back(back);
  const std::vector<OutstandingCommand> commands = state_.outstanding;
  commands_.send_again(back.node);
  const bool is_told = std::ranges::any_of(commands, [&](const auto& one) { return one.node == back.node; });
  if (was_lost && !is_told && state_.ends() && state_.doing == Doing::kKilling)
    commands_.kill_on(back.node, KillReach::kLaunch);
  if (!state_.has_ranks() || !commands.empty() || state_.wants_no_ranks()) return;
  const std::vector<std::uint32_t> held = state_.ranks_of(back.node);
  for (const RankThere& there : back.ranks) {
    const bool own = std::any_of(held.begin(), held.end(), [&](auto rank) { return std::cmp_equal(rank, there.rank); });
    if (own && there.launch == state_.launch) running_.learn(there.rank, there.epoch);
  }
  const std::uint64_t launch = state_.launch;
  check_ranks(back);
  if (is_final(state_.phase) || launch != state_.launch || state_.wants_no_ranks()) return;
  if (state_.phase == Phase::kStopping) return out_.act(StopRanks{state_.step + 2});
  if (!was_lost) {
    resend_change();
    if (!state_.hardware.other_hardware.empty() && view_.is_calm()) settled();
    return;
  }
  if (!lost_.empty() || !steers_ranks(state_.phase) || state_.doing == Doing::kLaunching) return;
  out_.note("ranks", "every node of the job is back");
  roll_back();
}

// Ranks that the returning agent should look after and does not have ended while it was away.
void Tuning::check_ranks(const NodeBack& back) {
  bool missing = false;
  for (const std::uint32_t rank : state_.ranks_of(back.node)) {
    const auto number = static_cast<std::int32_t>(rank);
    const bool there = std::any_of(back.ranks.begin(), back.ranks.end(), [&](const RankThere& one) {
      return one.rank == number && one.launch == state_.launch;
    });
    if (there || ended_.contains(number)) continue;
    missing = true;
    ended_.insert(number);
  }
  if (!missing) return;
  const bool expected = state_.phase == Phase::kStopping || state_.phase == Phase::kUntuned ||
                        (state_.phase == Phase::kTraining && state_.remaining_steps() <= 1);
  if (!expected)
    return crashed(FailureReason::kCrash, "ranks on node " + back.node + " ended while its agent was away");
  if (std::cmp_equal(ended_.size(), state_.world_size())) all_ranks_ended();
}

}  // namespace trimtab::coordinator
