#include "simulation/simulated_nodes.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.hpp"

namespace trimtab::coordinator {

SimulatedNodes::SimulatedNodes(const Cluster& cluster) : job_(cluster), links_(cluster.links) {
  for (const Node& node : cluster.nodes) known_[node.name] = node;
}

std::vector<NodeShare> SimulatedNodes::shares() const {
  std::vector<NodeShare> shares;
  std::int32_t first = 0;
  for (const Node& node : job_.nodes) {
    shares.push_back({node.name, first, node.devices});
    first += node.devices;
  }
  return shares;
}

bool SimulatedNodes::has_ranks(const std::string& node) const {
  return std::ranges::find(job_.nodes, node, &Node::name) != job_.nodes.end();
}

NodeBack SimulatedNodes::introduction(const std::string& node) const {
  const Node& known = known_.at(node);
  NodeBack back{node, {}};
  back.fingerprint = known.fingerprint;
  back.devices = known.devices;
  back.memory_bytes = known.memory_bytes;
  return back;
}

std::vector<std::string> SimulatedNodes::take_returns(Nanoseconds now) {
  std::vector<std::string> back;
  for (const auto& [node, until] : away_) {
    if (until <= now) back.push_back(node);
  }
  for (const std::string& node : back) away_.erase(node);
  return back;
}

std::optional<Nanoseconds> SimulatedNodes::next_return() const {
  const auto next = std::ranges::min_element(away_, {}, [](const auto& one) { return one.second; });
  if (next == away_.end()) return std::nullopt;
  return next->second;
}

void SimulatedNodes::add(const std::string& node) {
  Node added = known_.at(job_.nodes.front().name);
  added.name = node;
  added.speeds.clear();
  known_[node] = std::move(added);
}

void SimulatedNodes::replace(const std::string& node, const std::string& fingerprint) {
  known_.at(node).fingerprint = fingerprint;
  const auto of_job = std::ranges::find(job_.nodes, node, &Node::name);
  if (of_job != job_.nodes.end()) of_job->fingerprint = fingerprint;
}

Cluster SimulatedNodes::cluster_of(const std::vector<NodeShare>& nodes) const {
  Cluster cluster;
  std::set<std::string> names;
  for (const NodeShare& share : nodes) {
    const auto known = known_.find(share.node);
    TRIMTAB_ASSERT(known != known_.end(), "a job runs on nodes that were told of");
    cluster.nodes.push_back(known->second);
    cluster.nodes.back().devices = share.ranks;
    names.insert(share.node);
  }
  for (const Link& link : links_) {
    const bool both = !link.between || (names.contains(link.between->first) && names.contains(link.between->second));
    if (both) cluster.links.push_back(link);
  }
  return cluster;
}

bool SimulatedNodes::run_on(const std::vector<NodeShare>& nodes) {
  if (nodes == shares()) return false;
  job_ = cluster_of(nodes);
  return true;
}

std::optional<LargerPlacement> SimulatedNodes::place_more(std::int32_t world_size,
                                                          const std::vector<NodeShare>& present) const {
  LargerPlacement larger;
  larger.nodes = present;
  std::int32_t wanted = world_size;
  std::set<std::string> own;
  for (const NodeShare& share : present) {
    if (is_away(share.node)) return std::nullopt;
    own.insert(share.node);
    wanted -= share.ranks;
  }
  for (const auto& [name, node] : known_) {
    if (wanted <= 0) break;
    if (own.contains(name) || is_away(name)) continue;
    const std::int32_t ranks = std::min(node.devices, wanted);
    larger.joined.push_back({name, world_size - wanted, ranks});
    larger.key += name + "/" + node.fingerprint + " ";
    wanted -= ranks;
  }
  if (larger.joined.empty()) return std::nullopt;
  larger.nodes.insert(larger.nodes.end(), larger.joined.begin(), larger.joined.end());
  larger.cluster = cluster_of(larger.nodes);
  return larger;
}

}  // namespace trimtab::coordinator
