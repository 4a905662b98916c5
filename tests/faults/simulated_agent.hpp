#pragma once

// An agent over its real storage (spool, own cost database, ledger of commands) on a machine that fails: hello,
// heartbeats, costs and commands as agent_link.cpp and command_runner.cpp have them, without sockets and processes.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "agent_database.hpp"
#include "command_ledger.hpp"
#include "cost_store.hpp"
#include "machine.hpp"
#include "simulated_network.hpp"

namespace trimtab::test {

class SimulatedAgent {
 public:
  SimulatedAgent(std::size_t index, VirtualTime& time, Random& random, SimulatedNetwork& network);

  void boot();
  void received(SimulatedNetwork::Peer peer, const std::string& frame);
  void closed(SimulatedNetwork::Peer peer);
  void kill();
  void jump_clock(Nanoseconds by) { clock_.jump_wall(by); }
  // From now on the machine does not fail.
  void behave();

  [[nodiscard]] std::string node() const { return "n" + std::to_string(index_); }
  [[nodiscard]] SimulatedNetwork::Peer peer() const { return welcome_ ? peer_ : 0; }
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

 private:
  struct Copy {
    PowerCutDisk::Copy disk;
    std::set<std::string> kept;
    std::set<std::string> perhaps_kept;
    std::map<std::string, std::string> recorded;
  };
  struct Life {
    agent::AgentDatabase state;
    std::optional<agent::CostStore> costs;
    agent::CostCollection collected;
    std::set<std::uint64_t> running;  // commands
    std::map<std::uint64_t, wire::CommandDone> unsent;
  };

  void open();
  // Does it, unless the machine dies in its midst.
  void act(const std::function<void()>& work);
  void die();
  void copy_or_set_back();
  void renew();
  void connect();
  void every(Nanoseconds period, const std::function<void()>& work);
  void measure();
  void flush();
  void welcomed(const wire::Welcome& welcome);
  void command(const wire::Command& asked);
  void finish(const wire::Command& asked);
  void reply(const wire::CommandDone& done);
  bool send(const wire::FromAgent& message);

  std::size_t index_;
  VirtualTime& time_;
  Random& random_;
  SimulatedNetwork& network_;
  Machine machine_;
  MachineClock clock_;
  Bytes spool_limit_;
  std::unique_ptr<Life> life_;
  std::uint64_t lives_ = 0;  // callbacks of an earlier life do nothing
  SimulatedNetwork::Peer peer_ = 0;
  bool welcome_ = false;
  bool behaves_ = false;
  std::optional<Copy> copy_;
  bool set_back_ = false;  // and no coordinator has been heard since
  std::uint64_t measured_ = 0;
};

}  // namespace trimtab::test
