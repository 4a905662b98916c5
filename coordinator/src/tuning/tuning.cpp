#include "tuning/tuning.hpp"

#include <algorithm>

namespace trimtab::coordinator {

Tuning::Tuning(TuningState state) : m_(std::move(state)) {}

Outcome Tuning::begin(Moment now) {
  m_.now = now;
  m_.state.begun_wall_ns = now.wall.count();
  enter(Phase::kWaiting);
  return outcome();
}

Outcome Tuning::resume(Moment now) {
  m_.now = now;
  m_.lost_at = now.monotonic;
  launch_.live();
  for (const NodeShare& share : m_.state.nodes) m_.lost.insert(share.node);
  const bool asks = m_.state.doing == Doing::kAwaitingApproval && m_.state.job.mode == JobMode::kApprove;
  if (m_.state.has_trial() && !asks) {
    m_.fail_trial(FailureReason::kCoordinatorRestarted, "the coordinator restarted in the middle of the trial", false);
  }
  m_.out.note("warning", "the coordinator restarted; going on from phase " + std::string(to_string(m_.state.phase)));
  m_.out.changed = true;
  if (m_.state.watched) watching_.resume();
  if (m_.state.phase == Phase::kSearching) m_.request_search();
  const bool profiles = m_.state.phase == Phase::kProfiling;
  if (profiles && !m_.state.is_outstanding(CommandKind::kBenchmark)) follow({Next::kProfile});
  return outcome();
}

Outcome Tuning::handle(const Event& event, Moment now) {
  m_.now = now;
  if (is_final(m_.state.phase)) return {};
  const auto hear = [this](const auto& one) -> Next {
    using One = std::decay_t<decltype(one)>;
    constexpr bool of_watched = std::is_same_v<One, RankWatched> || std::is_same_v<One, RunReplaced>;
    if constexpr (of_watched) {
      return {};
    } else if constexpr (requires { on(one); }) {
      return on(one);
    } else if constexpr (requires { authority_.handle(one); }) {
      return authority_.handle(one);
    } else {
      return retuning_.handle(one);
    }
  };
  follow(m_.state.watched ? watching_.handle(event) : std::visit(hear, event));
  return outcome();
}

Outcome Tuning::outcome() {
  check_invariants();
  return std::exchange(m_.out, {});
}

void Tuning::follow(Next next) {
  while (next.kind != Next::kNothing) next = carry_out(next);
}

Next Tuning::carry_out(const Next& next) {
  switch (next.kind) {
    case Next::kNothing:
      return {};
    case Next::kSettle:
      return settled();
    case Next::kRollBack:
      return changes_.roll_back();
    case Next::kCrashed:
      return launch_.crashed(next.reason, next.why);
    case Next::kTrialLaunchFailed:
      return changes_.trial_launch_failed(next.reason, next.why);
    case Next::kRanksKilled:
      return ranks_killed();
    case Next::kRanksEnded:
      return ranks_ended();
    case Next::kShrink:
      return resizing_.shrink();
    case Next::kGoBack:
      return resizing_.go_back(next.why);
    case Next::kBeginAnew:
      enter(Phase::kLaunching);
      return launch_.kill(AfterKill::kRelaunch);
    case Next::kBack:
      enter(Phase::kLaunching);
      m_.activity.become(Doing::kKilling);
      return m_.state.outstanding.empty() ? ranks_killed() : Next{};
    case Next::kProfile:
      enter(Phase::kProfiling);
      m_.profiling.begin();
      return {};
    case Next::kMeasureAnew:
      m_.commands.forget(CommandKind::kBenchmark);
      enter(Phase::kMeasuring);
      return launch_.kill(AfterKill::kRelaunch, KillReach::kAll);
    case Next::kTune:
      if (m_.state.phase != Phase::kTrials) enter(Phase::kTrials);
      return settled();
    case Next::kWithdraw:
      trying_.withdraw_question(next.why);
      enter(Phase::kTraining);
      return retuning_.noticed();
    case Next::kFinishTrials:
    case Next::kSearchFailed:
      return finish_trials(next.why, next.kind == Next::kFinishTrials);
    case Next::kEndTuning:
      return end_tuning();
    case Next::kWatch:
      enter(Phase::kTraining);
      return {};
    case Next::kEndPreparation:
      return end_preparation(AfterKill::kFail);
    case Next::kFail:
      return fail(next.why);
  }
  return {};
}

Next Tuning::on(const Tick&) {
  const TuningState& state = m_.state;
  const Nanoseconds deadline = state.job.trials.deadline;
  if (state.phase == Phase::kProfiling) {
    if (state.profiles_anew() && !m_.lost.empty() && m_.now.monotonic - m_.lost_at > deadline) {
      m_.out.note("warning", "costs are not measured anew: a node is away");
      follow({Next::kMeasureAnew});
    } else {
      m_.profiling.tick();
    }
  }
  if (state.doing == Doing::kHalted) return {};
  if (!m_.lost.empty()) {
    if (const auto next = launch_.end_without_lost()) return *next;
    if (!state.ends()) return m_.elastic.tick_lost(m_.lost_at);
  }
  if (m_.activity.get<PlanChange>() != nullptr) return changes_.tick();
  const auto* const probing = m_.activity.get<Probing>();
  if (!state.has_ranks()) {
  } else if (probing != nullptr && m_.now.monotonic - probing->since > deadline) {
    follow(retuning_.not_explained());
  } else if (launch_.is_silent()) {
    follow(launch_.silent());
  } else if (launch_.live_within(deadline)) {
    follow(trying_.tick());
  }
  if (m_.hardware.first_look_is_late()) follow(retuning_.first_look_over());
  m_.hardware.tick();
  m_.hardware.search_around_slower();
  return {};
}

Next Tuning::on(const CommandFinished& command) {
  const auto kind = m_.commands.finished(command.tag);
  if (!kind) return {};
  switch (*kind) {
    case CommandKind::kDescribe:
      return described(command);
    case CommandKind::kBenchmark:
      if (m_.state.phase == Phase::kProfiling) m_.profiling.benchmarked(command);
      return {};
    case CommandKind::kLaunch:
      return launch_.handle(command);
    case CommandKind::kKill:
      return m_.state.is_outstanding(CommandKind::kKill) ? Next{} : ranks_killed();
  }
  return {};
}

Next Tuning::on(const CommandMoved& command) {
  m_.profiling.take_progress(command);
  launch_.live();
  return {};
}

Next Tuning::on(const SearchFinished& search) {
  const auto purpose = m_.searches.answered(search);
  if (!purpose) return {};  // of an earlier life
  switch (*purpose) {
    case SearchFor::kSpare:
      m_.elastic.take_spare(search.reply);
      return {};
    case SearchFor::kMoreNodes:
      if (const PricedPlan* const best = m_.elastic.take_growth(search.reply)) return resizing_.grow(*best);
      return {};
    case SearchFor::kSlowerHardware:
      return m_.hardware.take_slower(search.reply) ? retuning_.retune() : Next{};
    case SearchFor::kJob:
      if (m_.state.phase == Phase::kSearching) return first_search_finished(search.reply);
      if (m_.state.phase != Phase::kTrials || m_.state.doing != Doing::kSearching) return {};
      if (!m_.hardware.takes_first_look()) return trying_.decide(search.reply);
      m_.hardware.wait(search.reply);
  }
  return {};
}

Next Tuning::on(const FromRank& from) {
  const TuningState& state = m_.state;
  if (from.launch != state.launch || from.rank < 0 || from.rank >= state.world_size()) return {};
  if (const auto* const lives = std::get_if<RankLives>(&from.news)) {
    launch_.take(*lives);
    return {};
  }
  if (const auto* const saved = std::get_if<RankSaved>(&from.news)) {
    return !state.runs_trial() && m_.checkpoints.take(from.rank, *saved) ? trying_.saved() : Next{};
  }
  auto* const measuring = m_.activity.get<Measuring>();
  // The steps that were waited for come now.
  if (measuring != nullptr && !launch_.live_within(state.job.trials.deadline)) measuring->moved_at = m_.now.monotonic;
  launch_.live();
  return std::visit(
      [&](const auto& news) -> Next {
        using News = std::decay_t<decltype(news)>;
        if constexpr (std::is_same_v<News, RankStep>) {
          m_.trials.take_peak(from.rank, news);
          const auto whole = m_.assembly.add(from.rank, news);
          return whole ? on_step(*whole) : Next{};
        } else if constexpr (std::is_same_v<News, RankPasses>) {
          m_.trials.take_passes(from.rank, news);
          return {};
        } else if constexpr (std::is_same_v<News, RankMeasured>) {
          return retuning_.handle(from.rank, news);
        } else if constexpr (std::is_same_v<News, RankSaidBye> || std::is_same_v<News, RankLives> ||
                             std::is_same_v<News, RankSaved>) {
          return {};  // before the exit, which is what counts
        } else if constexpr (requires { launch_.handle(from.rank, news); }) {
          return launch_.handle(from.rank, news);
        } else {
          return changes_.handle(from.rank, news);
        }
      },
      from.news);
}

Next Tuning::on_step(const JobStep& step) {
  TuningState& state = m_.state;
  if (state.phase == Phase::kUntuned) {
    m_.activity.become(Doing::kNothing);
    state.untuned_losses.push_back({step.step, step.loss, step.samples});
    return {};
  }
  const bool begins = state.doing == Doing::kLaunching;
  if (begins && !state.runs_trial()) m_.checkpoints.resumed(step.step);
  trying_.take(step);
  m_.hardware.account_look(step);
  if (const auto next = changes_.spoils(step)) return *next;
  const std::string lost = begins && state.runs_trial() ? m_.checkpoints.judge(step.step) : "";
  if (!lost.empty()) return {Next::kTrialLaunchFailed, lost, FailureReason::kNotResumed};
  if (begins) return recovered();
  const bool changes = m_.activity.get<PlanChange>() != nullptr;
  if (changes || state.doing != Doing::kMeasuring) m_.overhead.add_step_between(step);
  // Ranks that are being ended may tell of steps yet.
  if (changes || state.wants_no_ranks() || !m_.lost.empty() || !steers_ranks(state.phase)) return {};
  if (const auto next = trying_.unexpected(step)) return *next;
  if (state.is_restarted()) follow(trying_.go_on());
  const bool is_warm = m_.since_change.settled();
  if (state.believes(step.wall_ms)) m_.since_change.add(step.wall_ms, step.prepared);
  if (is_warm && *state.hash_of(step.epoch) == state.incumbent.hash) follow(retuning_.watch(step));
  return m_.activity.get<Measuring>() != nullptr ? trying_.measure(step) : Next{};
}

Next Tuning::on(const NodeLost& lost) {
  launch_.handle(lost);
  return {};
}

Next Tuning::on(const NodeBack& back) {
  TuningState& state = m_.state;
  launch_.see(back.launch);
  const std::vector<std::uint32_t> held = state.ranks_of(back.node);
  if (held.empty()) {
    m_.commands.kill_strays(back);
    return {};
  }
  const bool was_lost = m_.lost.erase(back.node) > 0;
  launch_.live();
  follow(retuning_.handle(back));
  if (is_final(state.phase)) return {};
  m_.commands.take_brought_back(back);
  const std::vector<OutstandingCommand> commands = state.outstanding;
  m_.commands.send_again(back.node);
  const bool is_told = std::ranges::any_of(commands, [&](const auto& one) { return one.node == back.node; });
  if (was_lost && !is_told && state.ends() && state.doing == Doing::kKilling)
    m_.commands.kill_on(back.node, KillReach::kLaunch);
  if (!state.has_ranks() || !commands.empty() || state.wants_no_ranks()) return {};
  for (const RankThere& there : back.ranks) {
    const bool own = std::ranges::any_of(held, [&](auto rank) { return std::cmp_equal(rank, there.rank); });
    if (own && there.launch == state.launch) m_.running.learn(there.rank, there.epoch);
  }
  const std::uint64_t launch = state.launch;
  follow(launch_.check_ranks(back));
  if (is_final(state.phase) || launch != state.launch || state.wants_no_ranks()) return {};
  if (state.phase == Phase::kStopping) {
    m_.out.act(StopRanks{state.step + 2});
    return {};
  }
  if (!was_lost) {
    changes_.resend();
    return !state.hardware.other_hardware.empty() && m_.view.is_calm() ? settled() : Next{};
  }
  if (!m_.lost.empty() || !steers_ranks(state.phase) || state.doing == Doing::kLaunching) return {};
  m_.out.note("ranks", "every node of the job is back");
  return {Next::kRollBack};
}

Next Tuning::on(const NodesOffered& offered) {
  m_.elastic.offered(offered);
  return {};
}

Next Tuning::on(Order order) {
  switch (order) {
    case Order::kApprove:
      return m_.state.doing == Doing::kAwaitingApproval && !m_.view.held() && m_.lost.empty() ? trying_.approved()
                                                                                              : Next{};
    case Order::kFreeze:
      return authority_.freeze();
    case Order::kUnfreeze:
      return authority_.unfreeze();
    case Order::kStop:
      return user_stop();
    case Order::kOwnPlan:
      return authority_.keep_own_plan();
    case Order::kResume:
      return launch_.resume_halted() ? launch_incumbent() : Next{};
  }
  return {};
}

}  // namespace trimtab::coordinator
