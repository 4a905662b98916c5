#include "ranks/launched_ranks.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/check.hpp"
#include "ranks/rank_marks.hpp"

namespace trimtab::agent {

namespace {

// A launcher that is ended at once takes its launch back all the same.
constexpr Nanoseconds kLauncherGrace = std::chrono::seconds(10);

}  // namespace

LaunchedRanks::LaunchedRanks(net::EventLoop& loop, RankLedger ledger, std::string state, Ended ended,
                             std::shared_ptr<Processes> processes)
    : loop_(loop),
      ledger_(ledger),
      state_(std::move(state)),
      ended_(std::move(ended)),
      processes_(processes ? std::move(processes) : system_processes(loop)),
      prepared_(*processes_) {}
LaunchedRanks::~LaunchedRanks() = default;

Status LaunchedRanks::adopt() {
  TRIMTAB_TRY_STATUS(ledger_.forget_old());
  TRIMTAB_TRY(const auto entries, ledger_.all());
  for (const auto& entry : entries) {
    Rank& rank = ranks_[entry.id];
    rank.entry = entry;
    if (entry.ended) {
      ended_(entry);
      continue;
    }
    const bool alive = processes_->is_alive(entry.pid, entry.start_time);
    const Status watched = alive ? watch(rank) : unavailable("it is gone");
    if (watched.ok()) {
      spdlog::info("{} (pid {}) runs on from an earlier agent", describe(entry.id), entry.pid);
    } else {
      spdlog::warn("{} (pid {}) of an earlier agent has ended meanwhile", describe(entry.id), entry.pid);
      process_ended(entry.id, {});
    }
  }
  TRIMTAB_TRY_STATUS(adopt_unknown());
  for (const std::string& path : scratch_paths(state_)) remove_old_tables(path);
  return {};
}

// The coordinator is told of them as of all others, and has them ended where it does not know their launch.
Status LaunchedRanks::adopt_unknown() {
  for (const LedgerRank& marked : marked_ranks(state_)) {
    if (!processes_->is_alive(marked.pid, marked.start_time)) {
      unmark_rank(state_, marked.id);
      continue;
    }
    Rank& rank = ranks_[marked.id];
    if (rank.is_active()) continue;
    rank.entry = marked;
    TRIMTAB_TRY_STATUS(watch(rank));
    TRIMTAB_TRY_STATUS(ledger_.put(marked));
    spdlog::warn("{} of launch {} (pid {}) runs, and agent.db does not know it: that was removed, or is an older copy",
                 describe(marked.id), marked.launch, marked.pid);
  }
  return {};
}

// The mark first: nobody looks at one whose process never ran.
Status LaunchedRanks::write_down(const LedgerRank& entry) {
  TRIMTAB_TRY_STATUS(mark_rank(state_, entry));
  return ledger_.put(entry);
}

void LaunchedRanks::remove_old_tables(const std::string& path) const {
  std::set<std::uint64_t> running;
  for (const auto& [id, rank] : ranks_) {
    if (rank.is_active() && scratch(id).path() == path) running.insert(rank.entry.launch);
  }
  keep_nccl_tables(path, running);
}

Status LaunchedRanks::refuse_running(const std::vector<RankStart>& ranks) const {
  for (const auto& start : ranks) {
    const auto found = ranks_.find(start.id);
    if (found == ranks_.end() || !found->second.is_active()) continue;
    if (found->second.entry.is_watched()) {
      return unavailable(
          fmt::format("{} runs already, as process {}, and was launched by its user. End it, or give the "
                      "job another name",
                      describe(start.id), found->second.entry.pid));
    }
    if (found->second.entry.launch == start.launch) continue;
    return unavailable(fmt::format("{} of launch {} still runs (pid {}). Kill it before launch {}", describe(start.id),
                                   found->second.entry.launch, found->second.entry.pid, start.launch));
  }
  return {};
}

bool LaunchedRanks::has_started(const RankStart& start) const {
  const auto found = ranks_.find(start.id);
  return found != ranks_.end() && !found->second.entry.is_watched() && found->second.entry.launch == start.launch;
}

Status LaunchedRanks::start(const std::vector<RankStart>& ranks, bool fresh) {
  TRIMTAB_TRY_STATUS(refuse_running(ranks));
  const bool first = std::ranges::none_of(ranks, [this](const RankStart& start) { return has_started(start); });
  if (fresh && first && !ranks.empty()) TRIMTAB_TRY_STATUS(scratch(ranks.front().id).remove_snapshots());
  std::vector<RankIdentity> started;
  for (const auto& start : ranks) {
    if (has_started(start)) continue;
    if (const auto one = start_one(start); !one.ok()) {
      end_these(started, Nanoseconds(0), [] {});
      remove_old_tables(scratch(start.id).path());
      return wrap("couldn't launch " + describe(start.id), one.error());
    }
    started.push_back(start.id);
  }
  return {};
}

// Of an agent that ends before the slot comes nothing is awaited any more: the next one says that the rank has ended.
Status LaunchedRanks::await_slot(const RankStart& start) {
  Rank rank;
  rank.entry.id = start.id;
  rank.entry.launch = start.launch;
  rank.entry.epoch = start.epoch;
  rank.awaited = start;
  TRIMTAB_TRY_STATUS(ledger_.put(rank.entry));
  ranks_[start.id] = std::move(rank);
  return {};
}

void LaunchedRanks::await_no_longer(Rank& rank) {
  rank.awaited.reset();
  rank.entry.ended = true;
  remember(rank.entry);
}

LaunchedRanks::Rank* LaunchedRanks::rank_of(const Slot& slot) {
  std::uint32_t place = 0;
  for (auto& [id, rank] : ranks_) {
    const bool of_launch = id.job == slot.job && id.variant == slot.variant && rank.entry.launch == slot.launch;
    if (of_launch && !rank.entry.is_watched() && place++ == slot.local_rank) return &rank;
  }
  return nullptr;
}

Result<std::uint64_t> LaunchedRanks::start_time_of(pid_t pid, const char* where) const {
  if (pid == 0) {
    return bad_input(process_name(pid) +
                     ": what it runs could not be looked after. Run the agent in the node's own PID namespace "
                     "(Kubernetes: hostPID), or in the one that " +
                     where);
  }
  const auto stat = processes_->stat(pid);
  if (!stat) return unavailable(process_name(pid) + " has ended");
  return stat->start_time;
}

Result<RankStart> LaunchedRanks::take_slot(const Slot& slot, pid_t pid) {
  Rank* rank = rank_of(slot);
  if (rank == nullptr || !rank->awaited) {
    return bad_input("this node awaits no process as local rank " + std::to_string(slot.local_rank) + " of launch " +
                     std::to_string(slot.launch) + " of job " + slot.job +
                     ": the launch is over, or other nodes were meant");
  }
  TRIMTAB_TRY(const std::uint64_t start_time, start_time_of(pid, "the scheduler starts processes in"));
  TRIMTAB_TRY(const int log, open_log(rank->awaited->log_path));
  ::close(log);  // the process opens it itself; what an earlier launch wrote has made way
  TRIMTAB_TRY_STATUS(occupy(*rank, pid, start_time));
  RankStart start = std::move(*rank->awaited);
  rank->awaited.reset();
  spdlog::info("process {} is {} of launch {}", pid, describe(start.id), start.launch);
  return start;
}

// Written down before it may run anything: the next agent would know nothing of it.
Status LaunchedRanks::occupy(Rank& rank, pid_t pid, std::uint64_t start_time) {
  const LedgerRank awaited = rank.entry;
  rank.entry.pid = pid;
  rank.entry.start_time = start_time;
  Status taken = watch(rank);
  if (taken.ok()) taken = write_down(rank.entry);
  if (taken.ok()) return {};
  rank.watch.reset();
  rank.entry = awaited;
  return wrap("couldn't take " + process_name(pid) + " as " + describe(awaited.id), taken.error());
}

Status LaunchedRanks::start_one(const RankStart& start) {
  if (start.awaits_slot) return await_slot(start);
  TRIMTAB_TRY(const int opened, open_log(start.log_path));
  const Descriptor log(opened);
  if (const auto held = prepared_.take(start, log.get())) {
    const Status begun = begin_rank(start, *held);
    if (begun.ok()) return {};
    spdlog::warn("{} is launched bare: {}", describe(start.id), begun.error().message);
  }
  const ProcessRequest request{start.arguments, start.environment, start.working_directory, log.get(), log.get()};
  TRIMTAB_TRY(const auto held, processes_->fork(request));
  return begin_rank(start, *held);
}

Status LaunchedRanks::begin_rank(const RankStart& start, HeldChild& held) {
  Rank rank;
  rank.entry.id = start.id;
  rank.entry.launch = start.launch;
  rank.entry.epoch = start.epoch;
  rank.entry.pid = held.pid();
  rank.entry.start_time = held.start_time();
  TRIMTAB_TRY_STATUS(watch(rank));
  TRIMTAB_TRY_STATUS(write_down(rank.entry));
  if (const auto released = held.release(); !released.ok()) {
    rank.entry.ended = true;
    remember(rank.entry);
    return released;
  }
  spdlog::info("{} of launch {} started, pid {}", describe(start.id), start.launch, rank.entry.pid);
  ranks_[start.id] = std::move(rank);
  prepared_.started(start);
  return {};
}

void LaunchedRanks::prepare_next(Nanoseconds now) {
  prepared_.follow(now, [this](const std::string& job, std::uint32_t number) {
    for (const auto& [id, rank] : ranks_) {
      const bool meant = id.job == job && id.rank == number && rank.watch && !rank.entry.is_watched();
      if (meant && rank.trains != 0) return rank.entry.pid;
    }
    return pid_t(0);
  });
}

Status LaunchedRanks::watch(Rank& rank) {
  TRIMTAB_TRY(rank.watch, processes_->watch(rank.entry.pid, [this, id = rank.entry.id](const ProcessEnd& end) {
    process_ended(id, end);
  }));
  if (rank.entry.is_watched()) rank.watch->leave_group();
  return {};
}

void LaunchedRanks::process_ended(const RankIdentity& id, const ProcessEnd& end) {
  auto& rank = ranks_.at(id);
  rank.watch.reset();
  rank.entry.ended = true;
  // Nobody tells how a process ended that was not our child; one that had said goodbye is believed.
  rank.entry.exit_code = end.known ? end.exit_code : (rank.entry.said_bye ? 0 : -1);
  rank.entry.signal = end.signal;
  remember(rank.entry);
  spdlog::info("{} (pid {}) {}", describe(id), rank.entry.pid, describe(end));
  ended_(LedgerRank(rank.entry));
  if (!rank.entry.is_watched()) {
    unmark_rank(state_, id);
    remove_old_tables(scratch(id).path());
  }
  settle_endings();
}

void LaunchedRanks::forget_ended() {
  std::erase_if(ranks_, [](const auto& entry) { return !entry.second.is_active(); });
  if (const auto forgotten = ledger_.forget_ended(); !forgotten.ok()) spdlog::error("{}", forgotten.error().message);
}

bool LaunchedRanks::is_active(const std::string& job) const {
  return std::ranges::any_of(ranks_, [&](const auto& one) { return one.first.job == job && one.second.is_active(); });
}

Status LaunchedRanks::forget(const std::string& job) {
  TRIMTAB_ASSERT(!is_active(job), "a job that runs is not forgotten");
  TRIMTAB_TRY_STATUS(ledger_.forget_ended(job));
  prepared_.forget(job);
  std::erase_if(ranks_, [&](const auto& one) { return one.first.job == job; });
  return {};
}

void LaunchedRanks::end(const std::string& job, const std::string& variant, std::uint64_t launch, Nanoseconds grace,
                        std::function<void()> done) {
  if (launch == 0) prepared_.forget(job);
  std::vector<RankIdentity> ids;
  for (const auto& [id, rank] : ranks_) {
    const bool meant = id.job == job && id.variant == variant && (launch == 0 || rank.entry.launch <= launch);
    if (meant && rank.may_be_ended()) ids.push_back(id);
  }
  end_these(std::move(ids), grace, std::move(done));
}

void LaunchedRanks::end_all(Nanoseconds grace, std::function<void()> done) {
  std::vector<RankIdentity> ids;
  for (const auto& [id, rank] : ranks_) {
    if (rank.may_be_ended()) ids.push_back(id);
  }
  end_these(std::move(ids), grace, std::move(done));
}

void LaunchedRanks::end_these(std::vector<RankIdentity> ids, Nanoseconds grace, std::function<void()> done) {
  auto ending = std::make_unique<Ending>();
  for (const auto& id : ids) {
    Rank& rank = ranks_.at(id);
    if (rank.awaited) {
      await_no_longer(rank);
      continue;
    }
    const auto& watch = rank.watch;
    watch->end_group_with_it();
    if (grace.count() > 0 || id.rank == kLauncher) {
      ask_to_end(rank);
    } else {
      watch->kill_all();
    }
  }
  ending->grace = loop_.after(grace.count() > 0 ? grace : kLauncherGrace, [this, ids] {
    for (const auto& id : ids) {
      const auto found = ranks_.find(id);
      if (found != ranks_.end() && found->second.watch) found->second.watch->kill_all();
    }
  });
  ending->waiting = std::move(ids);
  ending->done = std::move(done);
  endings_.push_back(std::move(ending));
  loop_.post([this] { settle_endings(); });  // `done` is never called from within end().
}

void LaunchedRanks::ask_to_end(const Rank& rank) const {
  std::vector<pid_t> line;
  pid_t pid = rank.trains;
  while (pid > 1 && pid != rank.entry.pid) {
    line.push_back(pid);
    const auto stat = processes_->stat(pid);
    pid = stat ? stat->parent : 0;
  }
  if (pid > 1) {
    line.push_back(pid);
    for (const pid_t one : line) rank.watch->signal_one(one, SIGTERM);
    return;
  }
  rank.watch->signal_group(SIGTERM);
}

void LaunchedRanks::settle_endings() {
  std::vector<std::function<void()>> settled;
  std::erase_if(endings_, [&](const std::unique_ptr<Ending>& ending) {
    const bool gone = std::ranges::none_of(ending->waiting, [&](const auto& id) {
      const auto found = ranks_.find(id);
      return found != ranks_.end() && found->second.watch != nullptr;
    });
    if (gone) settled.push_back(std::move(ending->done));
    return gone;
  });
  for (const auto& done : settled) done();
}

std::optional<LedgerRank> LaunchedRanks::find(const std::string& job, std::uint32_t number, pid_t pid) const {
  for (const auto& [id, rank] : ranks_) {
    if (id.job != job || id.rank != number || !rank.watch || rank.entry.is_watched()) continue;
    if (processes_->belongs_to(pid, rank.entry.pid)) return rank.entry;
  }
  return std::nullopt;
}

std::optional<LedgerRank> LaunchedRanks::find_ended(const RankIdentity& id, std::uint64_t launch, pid_t pid) const {
  const auto found = ranks_.find(id);
  if (found == ranks_.end() || found->second.entry.launch != launch || pid <= 0) return std::nullopt;
  const auto stat = processes_->stat(pid);
  if (stat && !stat->ended()) return std::nullopt;  // what lives must be found by its descent
  return found->second.entry;
}

void LaunchedRanks::trains(const RankIdentity& id, pid_t pid) {
  const auto found = ranks_.find(id);
  if (found != ranks_.end()) found->second.trains = pid;
}

void LaunchedRanks::runs_epoch(const RankIdentity& id, std::uint64_t epoch) {
  const auto found = ranks_.find(id);
  if (found == ranks_.end() || found->second.entry.epoch == epoch) return;
  found->second.entry.epoch = epoch;
  remember(found->second.entry);
}

void LaunchedRanks::said_bye(const RankIdentity& id) {
  const auto found = ranks_.find(id);
  if (found == ranks_.end()) return;
  found->second.entry.said_bye = true;
  remember(found->second.entry);
}

std::vector<LedgerRank> LaunchedRanks::all() const {
  std::vector<LedgerRank> entries;
  for (const auto& [id, rank] : ranks_) {
    if (id.rank != kLauncher) entries.push_back(rank.entry);
  }
  return entries;
}

std::size_t LaunchedRanks::running() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(ranks_, [](const auto& entry) { return entry.second.is_active(); }));
}

void LaunchedRanks::bound_logs(Bytes limit) const {
  for (const auto& [id, rank] : ranks_) {
    if (rank.watch && !rank.entry.is_watched()) bound_log(scratch(id).log(id.rank), limit);
  }
}

void LaunchedRanks::remember(const LedgerRank& entry) {
  if (const auto stored = ledger_.put(entry); !stored.ok()) {
    spdlog::error("couldn't remember {}: {}", describe(entry.id), stored.error().message);
  }
}

}  // namespace trimtab::agent
