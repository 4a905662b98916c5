#pragma once

// Has agents look at their hardware beside a running job (ProbeBegin and what follows, schema/wire/agent.proto): every
// node's devices, and the links between neighbouring networks in the order of the ranks. One probe at a time in the
// whole cluster, since two would measure each other; the others wait. In rounds, so that no node takes part in two
// links at once. Loop thread only.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agents/wire_messages.hpp"
#include "base/clock.hpp"
#include "tuning/event.hpp"

namespace trimtab::coordinator {

// Of each of its stages, of which a slow link that the job keeps busy takes the most; of all; the agents' own deadline.
inline constexpr Nanoseconds kProbeStage = std::chrono::seconds(25);
inline constexpr Nanoseconds kProbeLimit = std::chrono::seconds(90);

// The interface that a job's environment names for its own communication; empty = none, or a rule and not a name.
[[nodiscard]] std::string interface_of(const Job& job);

// 32 bytes from the kernel that nobody can guess: what an agent must show to be served by another in a probe. Any
// thread.
[[nodiscard]] std::string probe_token();

class HardwareProbing {
 public:
  struct Wanted {
    std::string job;
    std::vector<NodeShare> nodes;
    std::string interface;
    bool links = true;  // also
    // One after the other, the answer is the middle one; but none begins that would end later, taking as long as the
    // one before.
    int takes = 1;
    Nanoseconds until = Nanoseconds::max();
  };
  // With what was measured, or with the reason for nothing. What is missing from some nodes is logged. Called from
  // report(), node_gone() or tick(), or at once.
  using Done = std::function<void(HardwareProbed)>;

  // `token` makes 32 bytes that nobody can guess.
  HardwareProbing(const Clock& clock, SendToNode send, std::function<std::string()> token = probe_token)
      : clock_(clock), send_(std::move(send)), token_(std::move(token)) {}

  void probe(Wanted wanted, Done done);
  void report(const std::string& node, const wire::ProbeReport& report);
  void node_gone(const std::string& node);
  void tick();

 private:
  // A network of ranks on a node, and where it listens.
  struct Endpoint {
    std::string node;
    std::string name;  // "n0", or "n0 rank 2" where the node's ranks live in several networks
    std::vector<std::uint32_t> ranks;
    std::string address;
    std::uint32_t port = 0;
    bool counts = false;  // tells what its interface carries
  };
  // A node's first report.
  struct Begun {
    std::vector<Probe> devices;
    std::vector<LinkFault> faults;
    std::vector<Endpoint> endpoints;
  };
  struct LinkOrder {
    std::size_t from = 0;  // of endpoints
    std::size_t to = 0;    // the same: the links inside
  };
  struct Request {
    Wanted wanted;
    Done done;
    std::vector<std::vector<Probe>> takes = {};  // so far
  };
  struct Running {
    std::uint64_t id = 0;
    Request request;
    Nanoseconds since{0};
    Nanoseconds stage_end{0};
    Nanoseconds end{0};
    std::set<std::string> unanswered;    // nodes whose first report is not there
    std::map<std::string, Begun> begun;  // what the first reports say
    std::vector<Endpoint> endpoints;
    std::vector<LinkOrder> links;
    std::set<std::size_t> waiting;  // links that no round has had yet
    std::set<std::size_t> round;    // links of this round without an answer
    HardwareProbed result;
    std::vector<std::string> problems;
  };

  void begin_next();
  void begin(Running& running);
  [[nodiscard]] static Begun begun_of(const NodeShare& share, const wire::ProbeReport& report);
  void choose_links();
  void next_round();
  [[nodiscard]] bool order(std::size_t link);
  void link_came(const std::string& node, const wire::ProbeReport& report);
  void finish();
  [[nodiscard]] bool wants_another_take(const Running& ended) const;

  const Clock& clock_;
  SendToNode send_;
  std::function<std::string()> token_;
  std::uint64_t last_id_ = 0;
  std::optional<Running> running_;
  std::deque<Request> queue_;
};

}  // namespace trimtab::coordinator
