#include "native/stage/stage_shape.hpp"

#include <algorithm>

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

}  // namespace trimtab::tuner
