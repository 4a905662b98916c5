#include "tuning/changed_hardware.hpp"

#include <algorithm>
#include <cmath>

namespace trimtab::coordinator {
namespace {

constexpr double kLeastLeft = 0.1;     // of a cost, however much shorter its messages have become
constexpr double kLeastSpeed = 0.001;  // that a cluster document can say

double messages_of(const CostKey& key) {
  if (key.kind != CostKind::kCollective) return 1;
  return (key.subject == "all_reduce" ? 2.0 : 1.0) * std::max(key.group_size - 1, 1);
}

double changed_ns(const Cost& cost, const LinkChange& change) {
  const double ns = cost.statistics.mean() / change.share;
  return std::max(ns + messages_of(cost.key) * change.message_ms * 1e6, kLeastLeft * ns);
}

}  // namespace

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

std::int32_t change_links(const std::map<std::string, LinkChange>& changes, Cluster& cluster,
                          std::vector<Cost>& costs) {
  const auto change_of = [&changes](const std::string& level) -> const LinkChange* {
    const auto found = changes.find(level.empty() ? "intra_node" : level);
    return found == changes.end() ? nullptr : &found->second;
  };
  for (Link& link : cluster.links) {
    const LinkChange* change = change_of(link.between ? "inter_node" : link.level);
    if (change == nullptr) continue;
    link.bandwidth_bytes_per_s *= change->share;
    link.latency_us = std::max(0.0, link.latency_us + change->message_ms * 1e3);
  }
  std::int32_t stale = 0;
  for (Cost& cost : costs) {
    const bool moves = cost.key.kind == CostKind::kCollective || cost.key.kind == CostKind::kPointToPoint;
    const LinkChange* change = moves ? change_of(cost.key.placement) : nullptr;
    if (change == nullptr || cost.statistics.empty()) continue;
    const double ns = changed_ns(cost, *change);
    cost.statistics = {};
    cost.statistics.add(std::llround(ns));
    ++stale;
  }
  return stale;
}

}  // namespace trimtab::coordinator
