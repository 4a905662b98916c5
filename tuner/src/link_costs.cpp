#include "link_costs.hpp"

#include <algorithm>

namespace trimtab::tuner {
namespace {

constexpr double kMsPerNs = 1e-6;
constexpr double kUncertaintyOfLinks = 0.2;

// What bandwidth and latency say: `steps` messages one after the other, `bytes` over the wire in all.
Value from_link(const Link* link, double steps, double bytes) {
  if (link == nullptr || link->bandwidth_bytes_per_s <= 0) return {};
  const double ms = steps * link->latency_us * 1e-3 + bytes / link->bandwidth_bytes_per_s * 1e3;
  return {ms, kUncertaintyOfLinks * ms, Quality::kEstimated};
}

Placement placement_named(const std::string& name) {
  return name == "inter_node" ? Placement::kInterNode : Placement::kIntraNode;
}

double slowdown(const Statistics& statistics) {
  return std::max(1.0, statistics.mean() * 1e-6);
}

}  // namespace

const char* to_string(Placement placement) {
  return placement == Placement::kIntraNode ? "intra_node" : "inter_node";
}

Placement placement_of(const Cluster& cluster, const std::vector<std::int32_t>& devices) {
  const std::int32_t node = cluster.node_of(devices.front());
  const bool together =
      std::all_of(devices.begin(), devices.end(), [&](std::int32_t d) { return cluster.node_of(d) == node; });
  return together ? Placement::kIntraNode : Placement::kInterNode;
}

LinkCosts::LinkCosts(const Cluster& cluster, const std::vector<Cost>& costs, bool allow_estimates)
    : allow_estimates_(allow_estimates), links_(cluster.links) {
  for (const Node& node : cluster.nodes) nodes_.push_back(node.name);
  using Points = std::map<std::int64_t, Statistics>;
  std::map<Group, Points> reduces;
  std::map<Placement, Points> transfers;
  std::map<Group, std::pair<Points, Points>> overlaps;
  for (const Cost& cost : costs) {
    const CostKey& key = cost.key;
    const Placement placement = placement_named(key.placement);
    if (key.kind == CostKind::kPointToPoint) transfers[placement][key.bytes].merge(cost.statistics);
    if (key.subject != "all_reduce" || cost.statistics.empty()) continue;
    const Group group{key.group_size, placement};
    if (key.kind == CostKind::kCollective) reduces[group][key.bytes].merge(cost.statistics);
    if (key.kind == CostKind::kOverlapComputation) overlaps[group].first[key.bytes].merge(cost.statistics);
    if (key.kind == CostKind::kOverlapCommunication) overlaps[group].second[key.bytes].merge(cost.statistics);
  }
  for (const auto& [group, points] : reduces) all_reduce_.emplace(group, Curve(points, kMsPerNs));
  for (const auto& [placement, points] : transfers) point_to_point_.emplace(placement, Curve(points, kMsPerNs));
  for (const auto& [group, both] : overlaps) {
    if (both.first.empty() || both.second.empty()) continue;
    // The largest size: small messages end before they can disturb anything.
    overlap_[group] = {slowdown(both.first.rbegin()->second), slowdown(both.second.rbegin()->second), true};
  }
}

Value LinkCosts::price(const Curve* curve, std::int64_t bytes, Value link_estimate) const {
  if (bytes <= 0) return {0, 0, Quality::kMeasured};
  if (curve != nullptr && !curve->empty()) {
    const Value value = curve->at(bytes);
    if (value.quality == Quality::kMeasured) return value;
    if (allow_estimates_) return curve->nearest(bytes);
  }
  return link_estimate;
}

Value LinkCosts::all_reduce(std::int64_t bytes, std::int32_t group_size, Placement placement) const {
  if (group_size < 2) return {0, 0, Quality::kMeasured};
  const auto found = all_reduce_.find({group_size, placement});
  const double steps = 2.0 * (group_size - 1);
  const Value ring = from_link(link(placement), steps, steps / group_size * static_cast<double>(bytes));
  return price(found == all_reduce_.end() ? nullptr : &found->second, bytes, ring);
}

Value LinkCosts::point_to_point(std::int64_t bytes, std::int32_t from_node, std::int32_t to_node) const {
  const Placement placement = from_node == to_node ? Placement::kIntraNode : Placement::kInterNode;
  const auto found = point_to_point_.find(placement);
  const Value direct = from_link(link_between(from_node, to_node), 1, static_cast<double>(bytes));
  return price(found == point_to_point_.end() ? nullptr : &found->second, bytes, direct);
}

OverlapSlowdown LinkCosts::overlap(std::int32_t group_size, Placement placement) const {
  const auto found = overlap_.find({group_size, placement});
  return found == overlap_.end() ? OverlapSlowdown{} : found->second;
}

const Link* LinkCosts::link(Placement placement) const {
  const auto found = std::find_if(links_.begin(), links_.end(), [&](const Link& candidate) {
    return !candidate.between && candidate.level == to_string(placement);
  });
  return found == links_.end() ? nullptr : &*found;
}

const Link* LinkCosts::link_between(std::int32_t from_node, std::int32_t to_node) const {
  const std::string& a = nodes_[from_node];
  const std::string& b = nodes_[to_node];
  for (const Link& candidate : links_) {
    if (!candidate.between || from_node == to_node) continue;
    if (*candidate.between == std::pair(a, b) || *candidate.between == std::pair(b, a)) return &candidate;
  }
  return link(from_node == to_node ? Placement::kIntraNode : Placement::kInterNode);
}

}  // namespace trimtab::tuner
