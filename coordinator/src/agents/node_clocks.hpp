#pragma once

// How far each node's CLOCK_REALTIME is ahead of the coordinator's, from the two ways of its heartbeats: what a node
// read before it sent is not later than what we read when it came, and the other way round. The difference lies between
// the two, however long a message took; half of the round trip is what it stays unsure by. Pure. Event loop's thread
// only.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/clock_difference.hpp"

namespace trimtab::wire {
class Heartbeat;
}

namespace trimtab::coordinator {

class NodeClocks {
 public:
  // Beyond the last bound: what clocks may drift apart by, as RFC 5905 (NTPv4) takes it, "PHI".
  static constexpr double kDriftPerNs = 15e-6;

  // Came when our clock was `now_ns`.
  void heard(const std::string& node, const wire::Heartbeat& heartbeat, std::uint64_t now_ns);
  // The answer says that our clock is `now_ns`.
  void answered(const std::string& node, std::uint64_t now_ns);
  // Another machine may have the name now.
  void forget(const std::string& node) { nodes_.erase(node); }

  // When the node's clock was `their_ns`. Nothing until messages have gone both ways.
  [[nodiscard]] std::optional<ClockDifference::Offset> ahead(const std::string& node, std::uint64_t their_ns) const;
  // Lately, of every node for which it is known.
  [[nodiscard]] std::map<std::string, ClockDifference::Offset> latest() const;

 private:
  struct Node {
    ClockDifference difference;
    std::uint64_t answered_ns = 0;  // by our clock; 0 = not yet, or its agent has said when that came
    std::uint64_t latest_ns = 0;    // their clock at the last bound
  };
  std::map<std::string, Node> nodes_;
};

}  // namespace trimtab::coordinator
