#pragma once

// An agent on a machine that fails: its real conversation with the coordinator, its storage (spool, own cost database,
// ledgers of commands and ranks), and what runs commands, looks after ranks, speaks with them and tells of them.
// Sockets, timers, processes and what a probe measures are played.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent_database.hpp"
#include "commands/command_runner.hpp"
#include "commands/job_retention.hpp"
#include "coordinator_conversation.hpp"
#include "costs/cost_store.hpp"
#include "machine.hpp"
#include "probes/hardware_probe.hpp"
#include "ranks/rank_sessions.hpp"
#include "records/trace_recorder.hpp"
#include "simulated_collectives.hpp"
#include "simulated_network.hpp"
#include "simulated_ranks.hpp"

namespace trimtab::test {

class SimulatedAgent {
 public:
  SimulatedAgent(std::size_t index, VirtualTime& time, Random& random, SimulatedNetwork& network, SimulatedRanks& ranks,
                 SimulatedCollectives& collectives);

  void boot();
  void received(SimulatedNetwork::Peer peer, const std::string& frame);
  void closed(SimulatedNetwork::Peer peer);
  void kill();
  // Its databases are removed while they are open.
  void lose_files();
  void jump_clock(Nanoseconds by) { clock_.jump_wall(by); }
  // From now on the machine does not fail.
  void behave();

  [[nodiscard]] std::string node() const { return "n" + std::to_string(index_); }
  [[nodiscard]] SimulatedNetwork::Peer peer() const { return connected() ? peer_ : 0; }
  // Empty when everything was stored, sent and acknowledged.
  [[nodiscard]] std::string waits_for() const;
  // Of the agent's own cost database: how often each measurement counts.
  [[nodiscard]] std::map<std::string, std::uint64_t> own_costs() const;

  // What the agent has been promised: measurements in the spool count once, others at most once.
  std::set<std::string> kept;
  std::set<std::string> perhaps_kept;
  // Since then the machine was set back to an older copy of itself, or it was not known yet that it had been.
  std::set<std::string> unsure;
  // Commands: how often each ran, and what was written down of it.
  std::map<std::string, std::uint64_t> runs;
  std::map<std::string, std::uint64_t> runs_lost;  // without having been written down
  std::map<std::string, std::string> recorded;     // by tag: the output
  // What its own databases lost by damage, and named.
  std::set<std::string> lost_own;
  std::set<std::string> lost_spooled;
  bool was_damaged = false;

 private:
  struct Copy {
    PowerCutDisk::Copy disk;
    std::set<std::string> kept;
    std::set<std::string> perhaps_kept;
    std::map<std::string, std::string> recorded;
  };
  // What a process of the agent holds.
  struct Life {
    Life(SimulatedAgent& agent, agent::AgentDatabase opened);

    agent::AgentDatabase state;
    net::EventLoop loop;
    std::optional<agent::CostStore> costs;
    agent::CostCollection collected;
    agent::RankNews news;
    agent::LaunchedRanks ranks;
    agent::JobContext jobs;
    agent::TraceRecorder traces;
    agent::RankRings rings;
    agent::RankSessions sessions;
    agent::CommandRunner commands;
    agent::HardwareProbe probe;
    agent::JobRetention retention;
    agent::CoordinatorConversation conversation;
    SimulatedRanks::Peer last_local = 0;
    std::set<pid_t> traced;
  };

  void open();
  // Does it, unless the machine dies in its midst.
  void act(const std::function<void()>& work);
  // What the loop has to do at once.
  void settle();
  void die();
  [[nodiscard]] SimulatedRanks::AgentSide side_of_ranks();
  [[nodiscard]] bool connected() const { return life_ && life_->conversation.connected(); }
  // Work of this life that comes later.
  [[nodiscard]] std::function<void(const std::function<void()>&)> later();
  [[nodiscard]] agent::CommandRunner::Surroundings runner_surroundings(Life& life);
  [[nodiscard]] agent::HardwareProbe::Surroundings probe_surroundings(Life& life);
  [[nodiscard]] agent::CoordinatorPort port();
  void copy_or_set_back();
  void flip_bit();
  using Spooled = std::map<std::uint64_t, std::string>;
  [[nodiscard]] std::optional<Spooled> spooled_now() const;
  // What a start finds after that is right, or named.
  void compare(agent::AgentDatabase& state);
  void connect();
  void every(Nanoseconds period, const std::function<void()>& work);
  void beat(Nanoseconds period, std::uint64_t beats);
  [[nodiscard]] std::vector<agent::TraceRecorder::Ring> rings() const;
  void trace();
  void measure();
  void tell_collectives();
  void tell_activities();
  void told_step(SimulatedRanks::Peer peer, const std::string& frame);
  void flush();
  void check(const wire::ToAgent& message);
  void obeyed(const wire::ToAgent& message);
  [[nodiscard]] std::string describe(const std::string& job);
  void described(const std::string& job);

  std::size_t index_;
  VirtualTime& time_;
  Random& random_;
  SimulatedNetwork& network_;
  SimulatedRanks& ranks_;
  SimulatedCollectives& collectives_;
  TemporaryDirectory scratch_;  // of jobs: files beside the databases are safe here
  Machine machine_;
  MachineClock clock_;
  Bytes spool_limit_;
  agent::Configuration configuration_;
  const std::string fingerprint_;
  std::unique_ptr<Life> life_;
  std::uint64_t lives_ = 0;  // callbacks of an earlier life do nothing
  SimulatedNetwork::Peer peer_ = 0;
  std::uint64_t served_ = 0;  // the latest coordinator that it has obeyed
  std::uint64_t beats_ = 0;   // series of heartbeats, of which the last one goes on
  bool behaves_ = false;
  std::optional<Copy> copy_;
  std::optional<Spooled> before_flip_;  // payloads by number, until a start has compared
  std::uint64_t set_apart_ = 0;
  bool set_back_ = false;  // and no coordinator has been heard since
  std::uint64_t measured_ = 0;
  std::map<std::string, wire::Command> asked_;  // descriptions, by job
};

}  // namespace trimtab::test
