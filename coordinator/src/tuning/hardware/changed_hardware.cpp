#include "tuning/hardware/changed_hardware.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace trimtab::coordinator {
namespace {

constexpr double kLeastLeft = 0.1;     // of a cost, however much shorter its messages have become
constexpr double kLeastSpeed = 0.001;  // that a cluster document can say

void change_speed(const LinkChange& change, Link& link) {
  link.bandwidth_bytes_per_s *= change.share;
  link.latency_us = std::max(0.0, link.latency_us + change.message_ms * 1e3);
}

// Of a pair, beside its level as that is now.
void change_beside_level(const LinkChange& change, const LinkChange& level, Link& link) {
  link.share = std::max((link.share > 0 ? link.share : 1) * change.share / level.share, kLeastSpeed);
  link.added_latency_us += (change.message_ms - level.message_ms) * 1e3;
}

LinkChange change_of(const LinkChanges& changes, const NodePair& pair) {
  for (const auto* const known : {&changes.pairs, &changes.unprobed}) {
    const auto found = known->find(pair);
    if (found != known->end()) return found->second;
  }
  return changes.of_level(level_of(pair));
}

// Those that the cluster gives for two nodes already. What it says of their bandwidth is changed where that is all that
// it says.
void change_named_links(const LinkChanges& changes, Cluster& cluster) {
  for (Link& link : cluster.links) {
    if (!link.between) continue;
    const NodePair pair = node_pair(link.between->first, link.between->second);
    const LinkChange change = change_of(changes, pair);
    if (link.share > 0 || link.bandwidth_bytes_per_s <= 0) {
      change_beside_level(change, changes.of_level(level_of(pair)), link);
    } else {
      change_speed(change, link);
    }
  }
}

void name_links(const LinkChanges& changes, const std::map<NodePair, LinkChange>& pairs, Cluster& cluster) {
  std::set<std::string> nodes;
  for (const Node& node : cluster.nodes) nodes.insert(node.name);
  std::set<NodePair> named;
  for (const Link& link : cluster.links) {
    if (link.between) named.insert(node_pair(link.between->first, link.between->second));
  }
  for (const auto& [pair, change] : pairs) {
    if (named.contains(pair) || !nodes.contains(pair.first) || !nodes.contains(pair.second)) continue;
    Link link;
    link.between = pair;
    change_beside_level(change, changes.of_level(level_of(pair)), link);
    cluster.links.push_back(std::move(link));
  }
}

}  // namespace

double messages_of(const CostKey& key) {
  if (key.kind != CostKind::kCollective) return 1;
  return (key.subject == "all_reduce" ? 2.0 : 1.0) * std::max(key.group_size - 1, 1);
}

double changed_ns(const CostKey& key, double ns, const LinkChange& change) {
  const double shared = ns / change.share;
  return std::max(shared + messages_of(key) * change.message_ms * 1e6, kLeastLeft * shared);
}

void slow_devices(const std::map<std::int32_t, double>& shares, Cluster& cluster) {
  std::int32_t device = 0;
  for (Node& node : cluster.nodes) {
    node.speeds.resize(static_cast<std::size_t>(node.devices), 1.0);
    for (double& speed : node.speeds) {
      const auto found = shares.find(device++);
      if (found != shares.end()) speed = std::max(speed * found->second, kLeastSpeed);
    }
    if (std::ranges::all_of(node.speeds, [](double speed) { return speed == 1; })) node.speeds.clear();
  }
}

std::int32_t change_links(const LinkChanges& changes, Cluster& cluster, std::vector<Cost>& costs) {
  change_named_links(changes, cluster);
  name_links(changes, changes.pairs, cluster);
  name_links(changes, changes.unprobed, cluster);
  for (Link& link : cluster.links) {
    if (!link.between) change_speed(changes.of_level(link.level), link);
  }
  std::int32_t stale = 0;
  for (Cost& cost : costs) {
    const bool moves = cost.key.kind == CostKind::kCollective || cost.key.kind == CostKind::kPointToPoint;
    const auto change = changes.levels.find(cost.key.placement.empty() ? "intra_node" : cost.key.placement);
    if (!moves || change == changes.levels.end() || cost.statistics.empty()) continue;
    const double ns = changed_ns(cost.key, cost.statistics.mean(), change->second);
    cost.statistics = {};
    cost.statistics.add(std::llround(ns));
    ++stale;
  }
  return stale;
}

}  // namespace trimtab::coordinator
