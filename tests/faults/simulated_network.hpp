#pragma once

// Connections between agents and one coordinator as TCP and its failures make them: frames of a connection come in
// order and late, a cut network holds them until it is mended or both sides have given the connection up, each at its
// own time, and what an old connection still holds may come after a new one has begun. Beyond TCP, frames are sometimes
// delivered twice, the second time out of order.

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/random.hpp"
#include "virtual_time.hpp"

namespace trimtab::test {

class SimulatedNetwork {
 public:
  using Peer = std::uint64_t;  // a connection, never used again
  struct Ends {
    std::function<void(Peer, const std::string&)> to_coordinator;
    std::function<void(Peer)> closed_at_coordinator;
    std::function<void(std::size_t agent, Peer, const std::string&)> to_agent;
    std::function<void(std::size_t agent, Peer)> closed_at_agent;
  };

  SimulatedNetwork(VirtualTime& time, Random& random, Ends ends)
      : time_(time), random_(random), ends_(std::move(ends)) {}

  // 0 when the coordinator cannot be reached.
  [[nodiscard]] Peer connect(std::size_t agent);
  // False when it is closed on that side.
  bool send_to_coordinator(Peer peer, std::string frame) { return send(peer, std::move(frame), true); }
  bool send_to_agent(Peer peer, std::string frame) { return send(peer, std::move(frame), false); }
  // What the coordinator has not had yet of what was sent to it.
  [[nodiscard]] std::size_t queued_by_agent(Peer peer) const;
  void close_by_agent(Peer peer);
  void close_by_coordinator(Peer peer);
  // The process is gone: the other sides hear of it soon, or, without power, when nothing comes for too long.
  void agent_gone(std::size_t agent);
  void coordinator_gone();
  void coordinator_back() {
    coordinator_up_ = true;
    ++coordinators_;
  }
  // Which of the coordinators, one after the other, is at the other end.
  [[nodiscard]] std::uint64_t coordinator_of(Peer peer) const { return connections_.at(peer).coordinator; }
  // Nothing passes between this agent and the coordinator.
  void cut(std::size_t agent, Nanoseconds duration);
  // From now on nothing is late, double or cut.
  void behave();

 private:
  struct Connection {
    std::size_t agent = 0;
    std::uint64_t coordinator = 0;
    bool open_at_agent = true;
    bool open_at_coordinator = true;
    std::size_t queued = 0;  // bytes on their way to the coordinator
    bool severed = false;    // what is on its way does not arrive
    Nanoseconds last_up{0};  // when the latest frame of each direction arrives
    Nanoseconds last_down{0};
  };

  bool send(Peer peer, std::string frame, bool up);
  enum class Times { kFirst, kAgain };
  void deliver(Peer peer, const std::string& frame, bool up, Times times);
  void schedule(Peer peer, std::string frame, bool up, Nanoseconds when, Times times);
  // The other side learns of the end.
  void close_later(Peer peer, bool at_agent, Nanoseconds delay);
  void close_now(Peer peer, bool at_agent);
  [[nodiscard]] Nanoseconds delay();
  [[nodiscard]] Nanoseconds until_noticed();
  [[nodiscard]] Nanoseconds between(Nanoseconds low, Nanoseconds high);
  [[nodiscard]] Nanoseconds cut_until(std::size_t agent) const;

  VirtualTime& time_;
  Random& random_;
  Ends ends_;
  std::map<Peer, Connection> connections_;
  std::map<std::size_t, Nanoseconds> cuts_;  // until when, by agent
  Peer last_ = 0;
  std::uint64_t coordinators_ = 0;
  bool coordinator_up_ = false;
  bool behaves_ = false;
};

}  // namespace trimtab::test
