#include "agents/node_clocks.hpp"

#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

std::int64_t difference(std::uint64_t theirs, std::uint64_t ours) {
  return static_cast<std::int64_t>(theirs - ours);
}

}  // namespace

void NodeClocks::heard(const std::string& node, const wire::Heartbeat& heartbeat, std::uint64_t now_ns) {
  if (heartbeat.wall_ns() == 0) return;  // an agent that does not say
  Node& known = nodes_[node];
  // Only of the answer that we know of: a number that we never sent would bound nothing.
  if (known.answered_ns != 0 && heartbeat.answered_ns() == known.answered_ns) {
    known.difference.add(heartbeat.heard_ns(), difference(heartbeat.heard_ns(), known.answered_ns), false);
    known.answered_ns = 0;
  }
  known.difference.add(heartbeat.wall_ns(), difference(heartbeat.wall_ns(), now_ns), true);
  known.latest_ns = heartbeat.wall_ns();
}

void NodeClocks::answered(const std::string& node, std::uint64_t now_ns) {
  if (const auto known = nodes_.find(node); known != nodes_.end()) known->second.answered_ns = now_ns;
}

std::optional<ClockDifference::Offset> NodeClocks::ahead(const std::string& node, std::uint64_t their_ns) const {
  const auto known = nodes_.find(node);
  if (known == nodes_.end() || !known->second.difference.two_sided()) return std::nullopt;
  auto offset = known->second.difference.at(their_ns);
  const std::uint64_t latest = known->second.latest_ns;
  const std::uint64_t away = their_ns > latest ? their_ns - latest : latest - their_ns;
  offset->uncertainty_ns += static_cast<std::uint64_t>(kDriftPerNs * static_cast<double>(away)) + 1;
  return offset;
}

std::map<std::string, ClockDifference::Offset> NodeClocks::latest() const {
  std::map<std::string, ClockDifference::Offset> all;
  for (const auto& [name, node] : nodes_) {
    if (const auto offset = ahead(name, node.latest_ns)) all.emplace(name, *offset);
  }
  return all;
}

}  // namespace trimtab::coordinator
