#pragma once

// The ranks this agent started: starting, watching, ending them, and knowing them again after its own death. A rank
// outlives the agent. Where a scheduler starts the ranks, they are awaited: a process that the scheduler started on
// this node (a slot) asks for its rank, is told what to run, and is that rank from then on.
// Beside them the ranks of watched jobs, which their users launched (watched_ranks.cpp): known, and their end noticed,
// but never ended, launched again or told anything. Loop thread only.

#include "agent_database.hpp"
#include "commands/scratch.hpp"
#include "processes/processes.hpp"
#include "ranks/prepared_ranks.hpp"

namespace trimtab::agent {

// Which rank of a launch a process is to be: the n-th of those on this node, from 0.
struct Slot {
  std::string job;
  std::string variant;
  std::uint64_t launch = 0;
  std::uint32_t local_rank = 0;
};

class LaunchedRanks final {
 public:
  // A rank has ended, for whatever reason; the ledger says how.
  using Ended = std::function<void(const LedgerRank&)>;

  // `processes`: nothing = the machine's.
  LaunchedRanks(net::EventLoop& loop, RankLedger ledger, std::string state, Ended ended,
                std::shared_ptr<Processes> processes = nullptr);
  ~LaunchedRanks();

  // Takes up the ranks of an earlier agent on this state, and removes what its ended launches left. Ended is called for
  // those that have ended, too.
  [[nodiscard]] Status adopt();

  // All or none: each is written down before it may run, and where one cannot be started the others end again. Those
  // that this very launch has started already are left alone: a launch asked twice starts once.
  // `fresh` removes the snapshots of earlier launches first.
  [[nodiscard]] Status start(const std::vector<RankStart>& ranks, bool fresh);
  [[nodiscard]] bool has_started(const RankStart& start) const;
  // What start() fails with where one of these ranks still runs from another launch.
  [[nodiscard]] Status refuse_running(const std::vector<RankStart>& ranks) const;

  // Process `pid`, which something else has started, is this rank from now on; it runs what is given back, and leads
  // its process group. An error where this launch does not await the rank here, or it cannot be written down.
  [[nodiscard]] Result<RankStart> take_slot(const Slot& slot, pid_t pid);

  // A process that its user has started, and that says it is this rank of this launch. `said` has the rank, the
  // launch and the world size. Refused where another process lives as that rank, whoever started it.
  struct Taken {
    LedgerRank rank;
    bool is_new = true;  // false: this very process was known as this rank already
  };
  [[nodiscard]] Result<Taken> take_watched(LedgerRank said, pid_t pid);
  // The watched rank that a process is, or belongs to.
  [[nodiscard]] std::optional<LedgerRank> find_watched(pid_t pid) const;
  [[nodiscard]] bool belongs_to(pid_t pid, pid_t ancestor) const { return processes_->belongs_to(pid, ancestor); }

  // Another coordinator numbers its launches anew: ones that have ended are not taken for its own.
  void forget_ended();
  // Ranks of a job none of which runs or is awaited.
  [[nodiscard]] Status forget(const std::string& job);
  [[nodiscard]] bool is_active(const std::string& job) const;

  // Of those that this agent launched. SIGTERM, SIGKILL to the groups after `grace`; `done` when all are gone (at once
  // where none runs). `launch` 0 = any; else launches up to it. No grace: SIGKILL at once, but for launchers, which
  // have a submission to take back. SIGTERM is for the process that trains and for those that have started it; for the
  // whole group where none has introduced itself. What a program starts beside its training (loaders, writers of
  // checkpoints) is needed until it has saved.
  void end(const std::string& job, const std::string& variant, std::uint64_t launch, Nanoseconds grace,
           std::function<void()> done);
  void end_all(Nanoseconds grace, std::function<void()> done);

  // The rank of a process that connects: launched by us, and the process is it or a descendant.
  [[nodiscard]] std::optional<LedgerRank> find(const std::string& job, std::uint32_t rank, pid_t pid) const;
  // The rank that a process belonged to which has ended before anybody looked: as it says itself, where that launch is
  // the rank's latest here.
  [[nodiscard]] std::optional<LedgerRank> find_ended(const RankIdentity& id, std::uint64_t launch, pid_t pid) const;
  void runs_epoch(const RankIdentity& id, std::uint64_t epoch);
  // This process of the rank has introduced itself.
  void trains(const RankIdentity& id, pid_t pid);
  void said_bye(const RankIdentity& id);

  // Ended and awaited ones (pid 0) included, launchers not.
  [[nodiscard]] std::vector<LedgerRank> all() const;
  [[nodiscard]] std::size_t running() const;
  // The next launches of ranks that train. To be called every few seconds.
  void prepare_next(Nanoseconds now);
  [[nodiscard]] PreparedRanks& prepared() { return prepared_; }
  [[nodiscard]] const PreparedRanks& prepared() const { return prepared_; }
  [[nodiscard]] Scratch scratch(const RankIdentity& id) const { return {state_, id.job, id.variant}; }
  void bound_logs(Bytes limit) const;

 private:
  struct Rank {
    LedgerRank entry;
    std::unique_ptr<WatchedProcess> watch;  // while it runs
    pid_t trains = 0;                       // of its processes; 0 = none has introduced itself
    std::optional<RankStart> awaited;       // until a slot has come for it

    [[nodiscard]] bool is_active() const { return watch != nullptr || awaited.has_value(); }
    [[nodiscard]] bool may_be_ended() const { return is_active() && !entry.is_watched(); }
  };
  struct Ending {
    std::vector<RankIdentity> waiting;
    std::function<void()> done;
    net::EventLoop::Timer grace;
  };

  // The tables of NCCL choices in a scratch's path of launches that no rank of this node runs any more.
  void remove_old_tables(const std::string& path) const;
  Status adopt_unknown();
  [[nodiscard]] Status write_down(const LedgerRank& entry);
  Status start_one(const RankStart& start);
  Status begin_rank(const RankStart& start, HeldChild& held);
  Status await_slot(const RankStart& start);
  // Of a process that somebody else has started, in the PID namespace that `where` says.
  [[nodiscard]] Result<std::uint64_t> start_time_of(pid_t pid, const char* where) const;
  Status occupy(Rank& rank, pid_t pid, std::uint64_t start_time);
  Rank* rank_of(const Slot& slot);
  void await_no_longer(Rank& rank);
  // In the way of a process that says it is this rank; an error where that is so.
  [[nodiscard]] Status check_free(const LedgerRank& said, pid_t pid);
  void bound_watched();
  Status watch(Rank& rank);
  void process_ended(const RankIdentity& id, const ProcessEnd& end);
  void settle_endings();
  void ask_to_end(const Rank& rank) const;
  void end_these(std::vector<RankIdentity> ids, Nanoseconds grace, std::function<void()> done);
  void remember(const LedgerRank& entry);

  net::EventLoop& loop_;
  RankLedger ledger_;
  std::string state_;
  Ended ended_;
  std::shared_ptr<Processes> processes_;
  PreparedRanks prepared_;
  std::map<RankIdentity, Rank> ranks_;
  std::vector<std::unique_ptr<Ending>> endings_;
};

}  // namespace trimtab::agent
