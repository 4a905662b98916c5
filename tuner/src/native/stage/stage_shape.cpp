#include "native/stage/stage_shape.hpp"

namespace trimtab::tuner {
namespace {

// Whether every block of consecutive devices lies on one node.
Placement of_blocks(const std::vector<std::int32_t>& node_of, const std::int32_t* devices, std::int32_t count,
                    std::int32_t block) {
  for (std::int32_t begin = 0; begin + block <= count; begin += block) {
    const std::int32_t node = node_of[devices[begin]];
    for (std::int32_t i = 1; i < block; ++i) {
      if (node_of[devices[begin + i]] != node) return Placement::kInterNode;
    }
  }
  return Placement::kIntraNode;
}

// The worst of all blocks: each is a group of ranks.
Route route_of_blocks(const Routes& routes, const std::vector<std::int32_t>& node_of, const std::int32_t* devices,
                      std::int32_t count, std::int32_t block) {
  if (!routes.any_named()) return of_blocks(node_of, devices, count, block);
  Route worst;
  std::vector<std::int32_t> nodes;
  for (std::int32_t begin = 0; begin + block <= count; begin += block) {
    nodes.clear();
    for (std::int32_t i = 0; i < block; ++i) nodes.push_back(node_of[devices[begin + i]]);
    const Route route = routes.among(nodes);
    worst = begin == 0 ? route : worse(worst, route);
  }
  return worst;
}

constexpr std::int32_t kMostNodes = 64;  // of a stage that is compared with others

// Devices that are faster than the costs say count as the costs say (slowness_of_devices).
bool same_speeds(const Node& a, const Node& b) {
  for (std::int32_t i = 0; i < a.devices; ++i) {
    if (std::min(1.0, a.speed_of(i)) != std::min(1.0, b.speed_of(i))) return false;
  }
  return true;
}

bool same_kind(const Node& a, const Node& b) {
  return a.devices == b.devices && a.memory_bytes == b.memory_bytes && a.host_memory_bytes == b.host_memory_bytes &&
         same_speeds(a, b);
}

}  // namespace

SplitShape split_shape(const Routes& routes, const Split& split, std::int32_t microbatch,
                       const std::vector<std::int32_t>& node_of, const std::int32_t* devices, std::int32_t count,
                       SequenceShare share) {
  SplitShape shape;
  shape.samples = microbatch / split.dp;
  shape.split = split;
  if (split.dp < 2) shape.split.sharded = ShardedLevel::kNone;
  shape.split.sharded_degree = 0;
  if (shape.sharded()) shape.split.sharded_degree = split.sharded_degree > 0 ? split.sharded_degree : split.dp;
  shape.cp = share.cp;
  shape.sequence = share.parallel && split.tp > 1;
  if (split.tp > 1) shape.tensor = route_of_blocks(routes, node_of, devices, count, split.tp);
  if (share.cp > 1) shape.context = route_of_blocks(routes, node_of, devices, count, split.tp * share.cp);
  if (shape.replica_ranks() > 1) shape.replicas = route_of_blocks(routes, node_of, devices, count, count);
  if (shape.sharded()) shape.shards = route_of_blocks(routes, node_of, devices, count, split.tp * shape.shard_ranks());
  return shape;
}

std::vector<std::int32_t> nodes_of_devices(const Cluster& cluster) {
  std::vector<std::int32_t> nodes;
  for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
    nodes.insert(nodes.end(), static_cast<std::size_t>(cluster.nodes[node].devices), static_cast<std::int32_t>(node));
  }
  return nodes;
}

StagePlaces::StagePlaces(const Cluster& cluster) {
  set_links(cluster);
  std::vector<std::int32_t> kinds;  // the first node of each
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(cluster.nodes.size()); ++n) {
    const Node& node = cluster.nodes[n];
    const auto like = std::ranges::find_if(kinds, [&](std::int32_t kind) {
      return same_kind(cluster.nodes[kind], node) && link_of(kind, kind) == link_of(n, n);
    });
    kind_of_.push_back(like == kinds.end() ? n : *like);
    if (like == kinds.end()) kinds.push_back(n);
    begin_of_.push_back(static_cast<std::int32_t>(node_of_.size()));
    node_of_.insert(node_of_.end(), static_cast<std::size_t>(node.devices), n);
  }
  alike_ = kinds.size() <= 1 && link_of_.empty();
  first_nodes_.push_back(kind_of_);
}

// Of several for the same nodes the first counts, as in their prices.
void StagePlaces::set_links(const Cluster& cluster) {
  std::map<std::string, std::int32_t> numbers;
  for (std::size_t n = 0; n < cluster.nodes.size(); ++n) {
    numbers.emplace(cluster.nodes[n].name, static_cast<std::int32_t>(n));
  }
  std::map<std::array<double, 4>, std::int32_t> seen;
  for (const Link& link : cluster.links) {
    if (!link.between) continue;
    const auto a = numbers.find(link.between->first);
    const auto b = numbers.find(link.between->second);
    if (a == numbers.end() || b == numbers.end()) continue;
    const std::array says{link.bandwidth_bytes_per_s, link.latency_us, link.share, link.added_latency_us};
    const auto number = static_cast<std::int32_t>(seen.size()) + 1;
    link_of_.try_emplace(std::minmax(a->second, b->second), seen.try_emplace(says, number).first->second);
  }
}

std::int32_t StagePlaces::link_of(std::int32_t a, std::int32_t b) const {
  const auto found = link_of_.find({a, b});
  return found == link_of_.end() ? 0 : found->second;
}

std::int32_t StagePlaces::of(std::int32_t first_device, std::int32_t devices) {
  const std::int32_t node = node_of_[first_device];
  const std::int32_t inside = first_device - begin_of_[node];
  if (alike_) return inside;
  const std::int32_t nodes = node_of_[first_device + devices - 1] - node + 1;
  if (nodes > kMostNodes) return first_device;
  return begin_of_[first_nodes(nodes)[node]] + inside;
}

// A run is like another when all of it but the last node is, all but the first, and the link between those two.
const std::vector<std::int32_t>& StagePlaces::first_nodes(std::int32_t nodes) {
  while (static_cast<std::int32_t>(first_nodes_.size()) < nodes) {
    const std::vector<std::int32_t>& shorter = first_nodes_.back();
    const std::size_t last = first_nodes_.size();  // beside the nodes of `shorter`
    std::map<std::array<std::int32_t, 3>, std::int32_t> seen;
    std::vector<std::int32_t> longer;
    for (std::size_t n = 0; n + last < kind_of_.size(); ++n) {
      const auto number = static_cast<std::int32_t>(n);
      const std::array run{shorter[n], shorter[n + 1], link_of(number, static_cast<std::int32_t>(n + last))};
      longer.push_back(seen.try_emplace(run, number).first->second);
    }
    first_nodes_.push_back(std::move(longer));
  }
  return first_nodes_[static_cast<std::size_t>(nodes) - 1];
}

}  // namespace trimtab::tuner
