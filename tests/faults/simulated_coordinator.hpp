#pragma once

// The coordinator's side of hello, heartbeats, costs and commands, on a machine that fails: its real databases,
// membership and `Agents`, with a list of commands that it wants done, as a job has one. It has no jobs.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "agents.hpp"
#include "machine.hpp"
#include "simulated_network.hpp"

namespace trimtab::test {

class SimulatedCoordinator {
 public:
  SimulatedCoordinator(VirtualTime& time, Random& random, SimulatedNetwork& network);
  ~SimulatedCoordinator();

  void boot();
  void received(SimulatedNetwork::Peer peer, const std::string& frame);
  void closed(SimulatedNetwork::Peer peer);
  void kill();
  void jump_clock(Nanoseconds by) { clock_.jump_wall(by); }
  void behave();
  // By whom; the tag names it.
  void want(const std::string& tag, const std::string& node) { wanted_[tag] = node; }

  [[nodiscard]] bool idle() const;
  // The node's connection; 0 = it is not known, not connected or lost.
  [[nodiscard]] SimulatedNetwork::Peer peer_of(const std::string& node) const;
  // Of this life: batches that are taken for acknowledged once and lost.
  [[nodiscard]] std::uint64_t batches_lost() const;
  // How often each measurement counts.
  [[nodiscard]] std::map<std::string, std::uint64_t> costs() const;

  // What the cost database had and, when it was set back to an older copy, had not any more.
  std::set<std::string> lost;
  bool was_set_back = false;
  std::map<std::string, std::string> outputs;  // of commands that are done, by tag

 private:
  struct Life;

  void open();
  void act(const std::function<void()>& work);
  void commit_soon();
  void die();
  void copy_or_set_back();
  [[nodiscard]] std::map<std::string, std::uint64_t> stored() const;
  void tick();
  void order(const std::string& tag, const std::string& node);
  void done(const wire::CommandDone& done);

  VirtualTime& time_;
  Random& random_;
  SimulatedNetwork& network_;
  Machine machine_;
  MachineClock clock_;
  std::unique_ptr<Life> life_;
  std::uint64_t lives_ = 0;
  bool behaves_ = false;
  std::optional<PowerCutDisk::Copy> copy_;  // of the cost database
  std::map<std::string, std::string> wanted_;
  std::map<std::string, std::uint64_t> ids_;  // that were given, by tag
  std::map<std::uint64_t, std::string> tags_;
};

}  // namespace trimtab::test
