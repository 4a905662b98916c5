#include "papers/galvatron/layer_strategy.hpp"

#include "base/check.hpp"

namespace trimtab::tuner::galvatron {
namespace {

constexpr std::array<Dimension, 3> kDimensions{Dimension::kData, Dimension::kSharded, Dimension::kTensor};

bool is_power_of_two(std::int32_t value) {
  return value > 0 && (value & (value - 1)) == 0;
}

bool allowed(const LayerStrategy& strategy, const TreeRules& rules) {
  if (!rules.mixes && strategy.dp() > 1 && strategy.sharded() > 1) return false;
  if (!rules.strided && !strategy.tp_consecutive()) return false;
  return rules.widest_tensor == 0 || strategy.tp() <= rules.widest_tensor;
}

// Grows the path by every level that is not used yet until it covers all devices.
void grow(const LayerStrategy& path, std::int32_t devices, std::vector<LayerStrategy>& all) {
  if (devices == 1) {
    all.push_back(path);
    return;
  }
  if (path.depth == 3) return;
  for (const Dimension dimension : kDimensions) {
    if (path.degree(dimension) > 1) continue;
    for (std::int32_t degree = 2; degree <= devices; degree *= 2) {
      LayerStrategy next = path;
      next.levels[static_cast<std::size_t>(next.depth++)] = {dimension, degree};
      grow(next, devices / degree, all);
    }
  }
}

}  // namespace

std::int32_t LayerStrategy::degree(Dimension dimension) const {
  for (std::int32_t i = 0; i < depth; ++i) {
    if (levels[static_cast<std::size_t>(i)].dimension == dimension) return levels[static_cast<std::size_t>(i)].degree;
  }
  return 1;
}

bool LayerStrategy::tp_consecutive() const {
  return tp() == 1 || levels[static_cast<std::size_t>(depth - 1)].dimension == Dimension::kTensor;
}

bool LayerStrategy::replicas_consecutive() const {
  return tp() == 1 || replicas() == 1 || levels[0].dimension == Dimension::kTensor;
}

bool LayerStrategy::in_document_order() const {
  if (dp() == 1 || sharded() == 1) return true;
  const std::size_t first = levels[0].dimension == Dimension::kTensor ? 1 : 0;
  return levels[first].dimension == Dimension::kData && levels[first + 1].dimension == Dimension::kSharded;
}

std::string LayerStrategy::text(std::int32_t stages) const {
  const bool mixed = tp() > 1 && replicas() > 1;
  std::string text = std::to_string(stages) + "-" + std::to_string(tp());
  if (mixed && tp_consecutive()) text += "*";
  text += "-" + std::to_string(replicas());
  if (sharded() > 1) text += "f";
  if (sharded() > 1 && dp() > 1) text += std::to_string(sharded());
  if (mixed && !tp_consecutive()) text += "*";
  return recompute ? text + "-c" : text;
}

LayerStrategy layer_strategy(std::int32_t dp, std::int32_t tp, bool sharded, bool tp_consecutive, bool recompute) {
  LayerStrategy strategy;
  strategy.recompute = recompute;
  const TreeLevel replicas{sharded ? Dimension::kSharded : Dimension::kData, dp};
  const TreeLevel ranks{Dimension::kTensor, tp};
  for (const TreeLevel& level : {tp_consecutive ? replicas : ranks, tp_consecutive ? ranks : replicas}) {
    if (level.degree > 1) strategy.levels[static_cast<std::size_t>(strategy.depth++)] = level;
  }
  return strategy;
}

std::vector<LayerStrategy> decision_tree(std::int32_t devices, const TreeRules& rules) {
  TRIMTAB_ASSERT(is_power_of_two(devices), "decision trees divide a power of two of devices");
  std::vector<LayerStrategy> paths;
  grow({}, devices, paths);
  std::erase_if(paths, [&](const LayerStrategy& strategy) { return !allowed(strategy, rules); });
  if (!rules.recompute) return paths;
  const std::size_t kept = paths.size();
  for (std::size_t i = 0; i < kept; ++i) {
    paths.push_back(paths[i]);
    paths.back().recompute = true;
  }
  return paths;
}

}  // namespace trimtab::tuner::galvatron
