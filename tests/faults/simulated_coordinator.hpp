#pragma once

// The coordinator on a machine that fails: its real databases, membership, `Agents` and jobs, of which there is one, on
// all nodes, that is tuned. Beside it a list of commands that are wanted. Searches are played.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "agents/agents.hpp"
#include "given_plans.hpp"
#include "machine.hpp"
#include "simulated_network.hpp"

namespace trimtab::test {

class SimulatedCoordinator {
 public:
  SimulatedCoordinator(VirtualTime& time, Random& random, SimulatedNetwork& network, GivenPlans& given);
  ~SimulatedCoordinator();

  void boot();
  void received(SimulatedNetwork::Peer peer, const std::string& frame);
  void closed(SimulatedNetwork::Peer peer);
  void kill();
  // Its databases are removed while they are open.
  void lose_files();
  void jump_clock(Nanoseconds by) { clock_.jump_wall(by); }
  void behave();
  // By whom; the tag names it.
  void want(const std::string& tag, const std::string& node) { wanted_[tag] = node; }
  // A person's, to the job; forgotten where nobody is there to take it.
  void order(coordinator::Order order);
  // Somebody asks for a trace of the job, and fetches it until it has ended; forgotten where nobody is there to take
  // it.
  void trace();
  [[nodiscard]] bool traces() const { return trace_.has_value(); }
  // Beside the job's own: of its hardware.
  void probe();
  [[nodiscard]] bool probes() const { return probes_ > 0; }
  // Of one rank on each node; `submitted`: a scheduler starts them. Handed in as soon as there is a coordinator, and
  // again when it is over.
  void hand_in(std::int32_t world_size, bool submitted) {
    world_size_ = world_size;
    submitted_ = submitted;
  }
  // Not any more.
  void hand_in_no_more() { world_size_ = 0; }
  [[nodiscard]] bool hands_in() const { return world_size_ > 0; }

  // The job as the coordinator has it; nullptr = it has none, or is away.
  [[nodiscard]] const coordinator::TuningState* job() const;
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
  bool was_damaged = false;                    // rows of its state were set apart, and named
  std::map<std::string, std::string> outputs;  // of commands that are done, by tag

 private:
  struct Life;
  // One that somebody waits for.
  struct Trace {
    std::uint64_t id = 0;
    Nanoseconds since{0};
    std::uint64_t fetched = 0;                     // chunks
    std::map<std::string, std::uint64_t> records;  // by node
  };

  void open();
  void act(const std::function<void()>& work);
  void commit_soon();
  void die();
  void copy_or_set_back();
  void flip_bit();
  // What a start finds after that is right, or named.
  void compare(coordinator::StateStore& store);
  [[nodiscard]] std::map<std::string, std::uint64_t> stored() const;
  void tick();
  void submit();
  void follow_trace();
  void fetch_trace(std::uint64_t chunks);
  void note_given(const std::string& frame);
  void order(const std::string& tag, const std::string& node);
  void done(const wire::CommandDone& done);

  VirtualTime& time_;
  Random& random_;
  SimulatedNetwork& network_;
  GivenPlans& given_;
  TemporaryDirectory files_;  // beside the databases; safe here
  Machine machine_;
  MachineClock clock_;
  std::unique_ptr<Life> life_;
  std::uint64_t lives_ = 0;
  bool behaves_ = false;
  std::int32_t world_size_ = 0;  // of the job to hand in; 0 = none
  bool submitted_ = false;
  std::optional<PowerCutDisk::Copy> copy_;                          // of the cost database
  std::optional<std::map<std::int64_t, std::string>> before_flip_;  // states of runs, until a start has compared
  std::uint64_t set_apart_ = 0;
  std::optional<Trace> trace_;
  int probes_ = 0;  // that nobody has answered yet
  std::map<std::string, std::string> wanted_;
  std::map<std::string, std::uint64_t> ids_;  // that were given, by tag
  std::map<std::uint64_t, std::string> tags_;
};

}  // namespace trimtab::test
