#include "published/traces/rank_nodes.hpp"

#include <algorithm>

namespace trimtab::published {

void RankNodes::add(const TracedRank& rank, std::int32_t number) {
  world_size_ = std::max(world_size_, rank.world_size);
  devices_there_ = std::max(devices_there_, rank.devices_there);
  numbered_ = numbered_ && rank.rank.has_value();
  if (!rank.node.empty()) {
    nodes_[number] = {rank.node, true};
  } else if (rank.profiler == Profiler::kNsight) {
    nodes_[number] = {rank.file, false};
  }
}

bool RankNodes::all_named() const {
  const bool all = world_size_ > 0 && numbered_ && static_cast<std::int64_t>(nodes_.size()) == world_size_;
  return all && std::ranges::all_of(nodes_, [](const auto& node) { return node.second.named; });
}

bool RankNodes::taken_for_one() const {
  return devices_per_node_ == 0 && !all_named() && world_size_ > 0 && world_size_ <= devices_there_;
}

std::optional<bool> RankNodes::on_several(const TracedGroup& group, const std::vector<std::int32_t>& present) const {
  const auto size = static_cast<std::size_t>(group.size);
  if (devices_per_node_ > 0) {
    if (group.size > devices_per_node_) return true;
    if (group.ranks.size() == size) {
      const std::int32_t first = group.ranks.front() / devices_per_node_;
      return std::ranges::any_of(group.ranks, [&](std::int32_t rank) { return rank / devices_per_node_ != first; });
    }
  }
  std::set<Node> found;
  std::size_t known = 0;
  for (const std::int32_t rank : present.size() == size || !numbered_ ? present : group.ranks) {
    const auto node = nodes_.find(rank);
    if (node == nodes_.end()) continue;
    found.insert(node->second);
    ++known;
  }
  const bool named = std::ranges::all_of(found, &Node::named);
  if (found.size() > 1 && named) return true;
  if (found.size() == 1 && known == size) return false;
  if (found.size() > 1) return std::nullopt;
  if (taken_for_one()) return false;
  if (devices_there_ > 1 && group.size > devices_there_) return true;
  return std::nullopt;
}

std::optional<RankNodes::Shape> RankNodes::shape() const {
  if (world_size_ <= 0) return std::nullopt;
  if (devices_per_node_ > 0) {
    const std::int64_t nodes = (world_size_ + devices_per_node_ - 1) / devices_per_node_;
    return Shape{nodes, std::min<std::int64_t>(world_size_, devices_per_node_)};
  }
  if (taken_for_one()) return Shape{1, world_size_};
  if (!all_named()) return std::nullopt;
  std::map<std::string, std::int64_t> ranks;
  for (const auto& [rank, node] : nodes_) ++ranks[node.name];
  Shape shape{static_cast<std::int64_t>(ranks.size()), 0};
  for (const auto& [name, count] : ranks) shape.most_ranks = std::max(shape.most_ranks, count);
  return shape;
}

}  // namespace trimtab::published
