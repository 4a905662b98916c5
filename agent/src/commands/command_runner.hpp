#pragma once

// Does what the coordinator commands: describe, benchmark, launch, kill. Each command once, however often it is asked.
// One thing it does without: where nobody commands, a job that a trial runs of can be brought back (bring_back.cpp).
// Loop thread only.

#include "commands/job_context.hpp"
#include "commands/job_programs.hpp"
#include "costs/cost_batches.hpp"
#include "node/disturbance.hpp"
#include "ranks/launched_ranks.hpp"

namespace trimtab::agent {

class CommandRunner final {
 public:
  struct Surroundings {
    net::EventLoop& loop;
    LaunchedRanks& ranks;
    JobContext& jobs;
    Environment environment;  // of the agent
    AgentPlaces places;
    std::string state;
    Bytes memory = 0;  // of a device
    Nanoseconds kill_grace{0};
    // False when it could not be sent now: retry() sends it again.
    std::function<bool(const wire::FromAgent&)> send;
    // Stores costs that a benchmark measured, and sends them, before it is reported as done.
    std::function<void(const Job&, const std::vector<Cost>&)> measured;
    // A launch of this rank is about to begin.
    std::function<void(const RankIdentity&)> launching;
    // The node's kill switch is thrown.
    std::function<bool()> held;
    std::shared_ptr<JobPrograms> programs = nullptr;  // nothing: the machine's
    // A benchmark begins; what is returned says when it has ended what disturbed it. Nothing: nobody looks.
    std::function<std::function<Disturbance()>()> watch_node = nullptr;
    // A command of this tenant's job comes (JobRetention::give_to()). Nothing: all jobs are one tenant's.
    std::function<Status(const std::string& job, const std::string& tenant)> give_directories = nullptr;
  };
  CommandRunner(Surroundings surroundings, CommandLedger ledger);

  // Another coordinator numbers its commands anew. On failure it must not be served: its replies would be forgotten as
  // the former one's by the next attempt, and its commands done again.
  [[nodiscard]] Status serve(const std::string& coordinator);
  void run(const wire::Command& command);
  // Writes down and sends the replies that could not be.
  void retry();
  // Each restarted job whose latest launch is a trial's that nobody has asked to end goes on with the plan that it
  // keeps: what runs of the trial is ended, and the job's own latest launch is started again. To be called while no
  // coordinator is there; again and again does no harm.
  void bring_back();
  // A coordinator is there, or there is no reason any more: what has not begun of it is left.
  void leave_to_coordinator() { bringing_back_.clear(); }
  // Ends what runs; nothing is reported.
  void stop() { running_.clear(); }
  [[nodiscard]] std::size_t running() const { return running_.size(); }
  // How fast the job's checkpoint was last copied, in bytes a second; nothing: it was not since this agent began.
  [[nodiscard]] std::optional<double> copy_speed(const std::string& job) const;
  void forget(const std::string& job) { copy_speeds_.erase(job); }

 private:
  struct Running {
    wire::Command command;
    std::unique_ptr<RunningCommand> work;  // none for a kill
  };

  Status begin(const wire::Command& command);
  Result<Job> job_of(const wire::Command& command, const std::string& job_json) const;
  Status describe(const wire::Command& command);
  Status benchmark(const wire::Command& command);
  Status launch(const wire::Command& command);
  Status start_ranks(const wire::Command& command, const Job& job);
  Status start_launch(const wire::Launch& launch, const Job& job);
  void remember(const wire::Launch& launch, const Job& job);
  void bring_back(const std::string& job);
  Status brought_back(const wire::Launch& launch);
  void checkpoint_copied(const wire::Command& command, const Job& job, const Status& copied, double speed);
  void give_up(const wire::Kill& kill);
  Status kill(const wire::Command& command);
  Result<std::vector<RankStart>> rank_starts(const wire::Launch& launch, const Job& job, const Scratch& scratch) const;
  RankLaunch launch_of(const wire::Launch& asked, const Job& job, const Scratch& scratch) const;
  Result<RankStart> launcher_start(const wire::Launch& launch, const Job& job, const Scratch& scratch) const;
  CommandCallbacks callbacks(std::uint64_t id);
  void described(const std::string& job, const wire::CommandDone& reply);
  void finish(std::uint64_t id, wire::CommandDone done);
  void record(const wire::Command& command, const wire::CommandDone& done);
  void record_late();
  void reply(const wire::CommandDone& done);

  Surroundings surroundings_;
  CommandLedger ledger_;
  std::set<std::string> in_trial_;       // jobs whose latest launch is a trial's that nobody has asked to end
  std::set<std::string> bringing_back_;  // jobs
  std::map<std::string, double> copy_speeds_;
  std::map<std::uint64_t, Running> running_;
  std::map<std::uint64_t, wire::CommandDone> unsent_;
  // Replies for which the disk had no room: remembered here, and written down later.
  struct Unrecorded {
    wire::Command command;
    wire::CommandDone done;
  };
  std::map<std::uint64_t, Unrecorded> unrecorded_;
};

}  // namespace trimtab::agent
