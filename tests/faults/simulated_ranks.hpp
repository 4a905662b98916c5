#pragma once

// The training processes of a simulated cluster: forked and held by an agent, released, introduced to whichever agent
// listens on their node, training steps and changing plans together, ending by themselves, by a signal or with their
// machine. They outlive agents. Those of submitted launches a scheduler starts, on the word of a launcher, which is
// forked by an agent, too. The other side of LaunchedRanks and RankSessions, of which nothing is played here.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "../simulated_rank.hpp"
#include "base/random.hpp"
#include "given_plans.hpp"
#include "processes/processes.hpp"
#include "ranks/rank_command.hpp"
#include "ranks/rank_identity.hpp"
#include "virtual_time.hpp"

namespace trimtab::test {

class SimulatedRanks {
 public:
  using Peer = std::uint64_t;
  // What a node's agent is to its processes.
  struct AgentSide {
    std::function<Peer(pid_t)> connect;  // 0 = nobody listens
    std::function<void(Peer, const std::string&)> say;
    std::function<void(Peer)> close;
    std::function<void(const std::function<void()>&)> act;  // as the agent, where one lives
    std::function<bool()> dies;                             // what it does has no effect any more
  };
  struct Alive {
    std::uint64_t launch = 0;
    std::uint32_t rank = 0;
    std::uint64_t epoch = 0;
    std::string plan;
  };

  SimulatedRanks(VirtualTime& time, Random& random, const GivenPlans& given)
      : time_(time), random_(random), given_(given) {}

  void add_node(std::size_t node, AgentSide side) { nodes_[node].side = std::move(side); }
  // For one life of the node's agent.
  [[nodiscard]] std::shared_ptr<agent::Processes> processes(std::size_t node);
  void told(std::size_t node, Peer peer, const std::string& frame);
  void agent_gone(std::size_t node);
  // The node's machine is off: all that ran there is gone, and nobody is told.
  void power_cut(std::size_t node);
  // An older copy of the node: what was started there since may be started once more.
  void set_back(std::size_t node);
  // The node's agent was told to end launches up to this one: none of them begins there any more.
  void killed(std::size_t node, std::uint64_t launch);
  // One of them crashes, if any runs.
  void crash_one();
  // From now on none crashes or refuses a plan.
  void behave() { behaves_ = true; }

  [[nodiscard]] std::vector<Alive> alive() const;
  [[nodiscard]] std::size_t launchers() const;
  // Ranks that run there, by process.
  [[nodiscard]] std::map<pid_t, std::uint32_t> on_node(std::size_t node) const;

 private:
  struct Process {
    std::size_t node = 0;
    std::uint64_t agent_life = 0;  // whose child it is
    std::uint64_t launch = 0;
    std::uint32_t rank = 0;
    std::uint32_t world = 1;
    SimulatedRank runs;
    bool launcher = false;
    bool slot = false;  // started by the scheduler, and no rank yet
    std::string state;  // of a launcher's submission, as it says
    bool released = false;
    bool ready = false;
    bool connects = false;
    Peer peer = 0;
    std::int64_t stop_step = -1;
    bool ends = false;  // a signal is on its way
  };
  // What the scheduler has of a launch. It outlives its launcher.
  struct Submission {
    std::vector<std::size_t> nodes;
    bool started = false;
    bool failed = false;
  };
  struct Node {
    AgentSide side;
    std::uint64_t life = 0;
    std::map<pid_t, std::function<void(const agent::ProcessEnd&)>> watches;
    std::map<std::pair<std::uint64_t, std::uint32_t>, int> starts;  // by launch and rank
    std::uint64_t killed = 0;                                       // launches up to this one
  };
  class Child;
  class Watch;
  class OfNode;

  [[nodiscard]] Result<std::unique_ptr<agent::HeldChild>> fork(std::size_t node, std::uint64_t life,
                                                               const agent::ProcessRequest& request);
  [[nodiscard]] Status release(pid_t pid);
  static void fill(Process& process, const agent::Environment& environment);
  void starts(Process& process);
  void drop(pid_t pid);
  void signal(pid_t pid);
  void begin(pid_t pid);
  void connect(pid_t pid);
  [[nodiscard]] std::string introduction(pid_t pid, const Process& process);
  void hear_as_slot(pid_t pid, Process& process, const std::string& type, const std::string& frame);
  void submit(pid_t pid);
  void queue(std::uint64_t launch);
  void start_slots(std::uint64_t launch);
  void look(std::uint64_t launch);
  void cancel(std::uint64_t launch);
  void tell_submission(std::uint64_t launch, const std::string& state);
  void conclude(std::uint64_t launch, const std::string& state);
  [[nodiscard]] pid_t launcher_of(std::uint64_t launch) const;
  void say(pid_t pid, const std::string& frame);
  void hear(pid_t pid, const std::string& frame);
  void answer(pid_t pid, Process& process, std::uint64_t epoch, const std::string& plan);
  void end(pid_t pid, std::int32_t exit_code, std::int32_t signal);
  void tell_end(pid_t pid, const Process& process, const agent::ProcessEnd& end);
  void leave_alone(std::uint64_t launch);
  [[nodiscard]] std::vector<pid_t> members(std::uint64_t launch) const;
  void train(std::uint64_t launch);
  bool change_plan(const std::vector<pid_t>& ranks);
  void step(const std::vector<pid_t>& ranks);
  [[nodiscard]] Nanoseconds between(Nanoseconds low, Nanoseconds high);

  VirtualTime& time_;
  Random& random_;
  const GivenPlans& given_;
  std::map<std::size_t, Node> nodes_;
  std::map<pid_t, Process> processes_;
  std::map<std::uint64_t, Submission> submissions_;  // by launch
  std::set<std::uint64_t> training_;                 // launches whose steps are under way
  std::map<std::uint64_t, std::int64_t> steps_;      // by launch: the next
  std::int64_t saved_ = 0;                           // where the next launch goes on
  pid_t last_pid_ = 100;
  bool behaves_ = false;
};

}  // namespace trimtab::test
