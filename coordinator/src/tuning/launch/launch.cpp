#include "tuning/launch/launch.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/units.hpp"
#include "schema/api/printed_text.hpp"

namespace trimtab::coordinator {
namespace {

// How long the ranks may be silent. Between a job's own steps nobody but the job knows what takes long: an evaluation,
// a save.
Nanoseconds patience(const TuningState& state) {
  const Nanoseconds deadline = state.job.trials.deadline;
  if (state.doing == Doing::kLaunching || state.doing == Doing::kKilling) return 2 * deadline;
  const bool trains =
      state.phase == Phase::kMeasuring || state.phase == Phase::kTrials || state.phase == Phase::kTraining;
  return trains && !state.is_about_trial() ? std::max(state.job.hang, deadline) : deadline;
}

// Of processor time alone, of ranks that have told steps before.
constexpr int kBusyPatiences = 4;

// More than are ever proposed between two that ranks run.
constexpr std::size_t kEpochs = 64;

}  // namespace

std::uint64_t LaunchState::begin_epoch(const std::string& plan_hash) {
  epoch_hashes[++last_epoch] = plan_hash;
  const auto kept = [this](std::uint64_t epoch) { return epoch == committed_epoch || epoch == launch_epoch; };
  for (auto one = epoch_hashes.begin(); epoch_hashes.size() > kEpochs && one != epoch_hashes.end();) {
    one = kept(one->first) ? std::next(one) : epoch_hashes.erase(one);
  }
  return last_epoch;
}

const std::string* LaunchState::hash_of(std::uint64_t epoch) const {
  const auto found = epoch_hashes.find(epoch);
  return found == epoch_hashes.end() ? nullptr : &found->second;
}

bool LaunchState::is_outstanding(const std::string& tag) const {
  return std::ranges::any_of(outstanding, [&](const OutstandingCommand& one) { return one.tag.text == tag; });
}

bool LaunchState::is_outstanding(CommandKind kind) const {
  return std::ranges::any_of(outstanding, [kind](const OutstandingCommand& one) { return one.kind == kind; });
}

std::string describe_end(std::int32_t rank, const RankExited& exited, const std::string& node) {
  std::string how = " exited with code " + std::to_string(exited.exit_code);
  if (exited.signal != 0) how = " was ended by signal " + std::to_string(exited.signal);
  if (exited.signal == 0 && exited.exit_code < 0) how = " ended";  // nobody saw how
  const std::string text = "rank " + std::to_string(rank) + how;
  if (!exited.log.empty()) return text + " (its log: " + node + ":" + exited.log + ")";
  // An agent of an earlier release: nobody could look there.
  return exited.last_output.empty() ? text : text + std::string(api::kLastOutput) + exited.last_output;
}

void Launch::launch(const PlanText& plan, const std::string& variant, bool fresh, std::int64_t steps) {
  TuningState& state = m_.state;
  state.launch = next_number();
  launched_at_ = m_.now.monotonic;
  state.launch_epoch = state.committed_epoch = state.begin_epoch(plan.hash);
  state.launch_plan = plan;
  state.launch_variant = variant;
  state.launch_fresh = fresh;
  state.launch_steps = steps;
  m_.activity.go_on_as(Doing::kLaunching);
  m_.running.begin_launch();
  m_.forget_steps(true);
  m_.checkpoints.forget();
  ended_.clear();
  first_end_.clear();
  submission_told_.clear();
  // A restarted trial has several launches, and its plans' peaks and passes are of all of them.
  if (!state.has_trial()) m_.trials.forget_told();
  live();
  m_.commands.launch();
  m_.out.changed = true;
}

Next Launch::handle(const CommandFinished& launched) {
  live();
  if (!launched.ok) return crashed(FailureReason::kCrash, "launching failed: " + launched.error);
  // Nodes prepare at the same time.
  m_.overhead.add_change(launched.prepared_ms / static_cast<double>(std::max<std::size_t>(1, m_.state.nodes.size())));
  const std::string node = m_.state.node_of(0);
  if (launched.tag == CommandTag::launching(m_.state.launch, node).text && !launched.output.empty()) {
    log_of_rank_0_ = node + ":" + launched.output;
  }
  auto* const restart = m_.activity.get<Restart>();
  if (restart != nullptr && !m_.state.is_outstanding(CommandKind::kLaunch)) restart->started = m_.now.monotonic;
  // A node came back to a launch that it had not heard of yet.
  const bool waits = m_.state.doing == Doing::kWaitingForNodes && m_.state.outstanding.empty() && m_.lost.empty();
  return {waits && steers_ranks(m_.state.phase) ? Next::kRollBack : Next::kNothing};
}

Next Launch::kill(AfterKill after, KillReach reach) {
  m_.activity.cancel(m_.out);
  m_.activity.become(Doing::kKilling);
  m_.state.after_kill = after;
  live();
  m_.commands.kill(reach);
  m_.out.changed = true;
  return {};
}

Next Launch::kill_reachable(AfterKill after, KillReach reach) {
  kill(after, reach);
  m_.commands.forget_of(m_.lost);
  return {m_.state.is_outstanding(CommandKind::kKill) ? Next::kNothing : Next::kRanksKilled};
}

std::optional<Next> Launch::end_without_lost() {
  TuningState& state = m_.state;
  const bool is_last = state.ends() || state.phase == Phase::kStopping || state.phase == Phase::kUntuned;
  if (!is_last || m_.now.monotonic - m_.lost_at <= state.job.trials.deadline) return std::nullopt;
  const bool waits = state.doing != Doing::kKilling || std::ranges::any_of(state.outstanding, [this](const auto& one) {
                       return m_.lost.contains(one.node);
                     });
  if (!waits) return std::nullopt;
  m_.out.note("warning",
              "a node did not come back within the deadline: the job ends without, and what runs there is ended "
              "when it comes back");
  if (state.stop_asked) return kill_reachable(AfterKill::kStop);
  if (state.ends()) return kill_reachable(AfterKill::kFail);
  state.loss_note = "not compared: a node was lost for good at the job's end";
  return kill_reachable(AfterKill::kFinish);
}

void Launch::runs() {
  m_.activity.become(Doing::kNothing);
  // All ranks have told of a step: the launches are done, also where an agent could not say so yet.
  m_.commands.forget(CommandKind::kLaunch);
  std::erase_if(m_.state.crashes, [](const Crash& one) { return one.plan_hash == kNoPlan; });
  m_.overhead.run_again();
  m_.state.launch_ms = milliseconds(m_.now.monotonic - launched_at_);
  m_.out.note("ranks", "launch " + std::to_string(m_.state.launch) + " runs");
  if (!m_.state.runs_trial()) m_.learning.run_again();
}

void Launch::halt() {
  m_.activity.become(Doing::kHalted);
  m_.out.changed = true;
  m_.out.decide("halt the job", m_.state.failure);
  m_.out.note("warning", "the job is halted: " + m_.state.failure +
                             ". Find out why; hand in the same job once more, and it goes on from its last snapshot");
}

bool Launch::resume_halted() {
  if (m_.state.doing != Doing::kHalted) return false;
  m_.state.failure.clear();
  m_.state.crashes.clear();
  m_.out.note("ranks", "somebody asked for the halted job to go on");
  m_.out.decide("launch the halted job again", "it was handed in once more");
  return true;
}

Next Launch::handle(std::int32_t rank, const RankConnected& connected) {
  m_.running.learn(rank, connected.epoch);
  auto* const restart = m_.activity.get<Restart>();
  if (restart != nullptr && m_.state.doing == Doing::kLaunching) {
    restart->connect(rank, connected, m_.state.world_size(), m_.now.monotonic);
  }
  return {};
}

Next Launch::handle(std::int32_t rank, const RankExited& exited) {
  if (m_.state.wants_no_ranks() || !m_.state.has_ranks()) return {};
  ended_.insert(rank);
  const bool clean = exited.exit_code == 0 && exited.signal == 0;
  // What the end of a submitted launch's ranks means is said by its submission.
  const std::string end = describe_end(rank, exited, m_.state.node_of(rank));
  if (m_.state.is_submitted()) {
    if (!clean && first_end_.empty()) {
      first_end_ = end;
      tell_output(rank, exited);
    }
    return {};
  }
  const bool stops = m_.state.phase == Phase::kStopping;
  if (!clean && !stops) {
    const Next next = crashed(FailureReason::kCrash, end);
    tell_output(rank, exited);
    return next;
  }
  if (!clean) m_.out.note("warning", end);
  return {std::cmp_equal(ended_.size(), m_.state.world_size()) ? Next::kRanksEnded : Next::kNothing};
}

// A trial's launch is thrown away, and its silence costs what trials may cost. Elsewhere what prints or runs kernels is
// no hang. Processor time alone is believed for ever of a program that has told no step yet, and for a while of others:
// ranks that wait for a lost peer may take it, too.
void Launch::take(const RankLives& lives) {
  const TuningState& state = m_.state;
  if (state.runs_trial() || state.wants_no_ranks() || !state.has_ranks()) return;
  if (lives.output || lives.records) {
    live();
  } else {
    const bool of_trial = state.is_about_trial();
    const bool believed = state.step == 0 || m_.now.monotonic - told_at_ <= kBusyPatiences * patience(state);
    if (!lives.processor || of_trial || !believed) return;
    moved_at_ = m_.now.monotonic;
  }
  const Nanoseconds silent = m_.now.monotonic - launched_at_;
  if (state.doing != Doing::kLaunching || silent <= state.job.trials.deadline) return;
  if (std::exchange(untold_launch_, state.launch) == state.launch) return;
  m_.out.note("warning", "the ranks run and have told of no step for " + format_duration(silent) +
                             ": nothing is measured or tuned until they do (docs/targets.md). They are left alone");
}

// What it printed last, as it was. The same program crashes at the same place again and again: that is told once.
void Launch::tell_output(std::int32_t rank, const RankExited& exited) {
  if (exited.last_output.empty() || exited.log.empty()) return;
  std::string known = exited.last_output;  // without times, process ids and ports
  std::erase_if(known, [](unsigned char byte) { return byte >= '0' && byte <= '9'; });
  if (std::exchange(output_told_, known) == known) return;
  m_.out.note("output", "the last lines of rank " + std::to_string(rank) + ":\n" + exited.last_output);
}

bool Launch::is_silent() const {
  return !live_within(patience(m_.state));
}

// In mode observe nothing is ended that nobody asked to end.
Next Launch::silent() {
  const TuningState& state = m_.state;
  if (state.doing == Doing::kKilling) {
    m_.out.note("warning", "no agent confirmed the end of the ranks in time");
    m_.commands.forget(CommandKind::kKill);
    return {Next::kRanksKilled};
  }
  std::string why = "no sign of life from the ranks for more than " + format_duration(patience(state));
  if (state.doing == Doing::kLaunching && !m_.running.is_told()) {
    why += ", and none since their launch: the program must tell its agent of its steps (docs/targets.md)";
  }
  if (state.job.mode != JobMode::kObserve || state.stop_asked) return crashed(FailureReason::kHang, why);
  if (std::exchange(silence_told_, moved_at_) != moved_at_) {
    m_.out.note("warning", why + ". The job is in mode observe: nothing is ended");
  }
  return {};
}

void Launch::handle(const NodeLost& lost) {
  if (m_.state.ranks_of(lost.node).empty() || !m_.lost.insert(lost.node).second) return;
  m_.lost_at = m_.now.monotonic;
  m_.out.changed = true;
  m_.out.note("warning", "node " + lost.node + " is lost");
  m_.trials.take_back_blame(lost.node);
  if (!steers_ranks(m_.state.phase)) return;
  m_.activity.cancel(m_.out);
  if (m_.state.has_trial() && m_.state.doing != Doing::kAwaitingApproval) {
    m_.fail_trial(FailureReason::kAgentLost,
                  "the agent of node " + lost.node + " fell silent in the middle of the trial", false);
  }
  const bool starts = m_.state.doing == Doing::kLaunching || m_.state.wants_no_ranks();
  if (!starts && m_.state.doing != Doing::kAwaitingApproval) m_.activity.become(Doing::kWaitingForNodes);
}

Next Launch::check_ranks(const NodeBack& back) {
  bool missing = false;
  for (const std::uint32_t rank : m_.state.ranks_of(back.node)) {
    const auto number = static_cast<std::int32_t>(rank);
    const bool there = std::ranges::any_of(
        back.ranks, [&](const RankThere& one) { return one.rank == number && one.launch == m_.state.launch; });
    if (!there) missing |= ended_.insert(number).second;
  }
  if (!missing) return {};
  const bool expected = m_.state.phase == Phase::kStopping || m_.state.phase == Phase::kUntuned ||
                        (m_.state.phase == Phase::kTraining && m_.state.remaining_steps() <= 1);
  if (!expected)
    return crashed(FailureReason::kCrash, "ranks on node " + back.node + " ended while its agent was away");
  return {std::cmp_equal(ended_.size(), m_.state.world_size()) ? Next::kRanksEnded : Next::kNothing};
}

}  // namespace trimtab::coordinator
