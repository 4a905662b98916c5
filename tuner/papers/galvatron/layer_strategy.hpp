#pragma once

// How one layer uses the devices of its stage, and the decision trees that say which ways there are (Galvatron-BMW,
// section III-B, figure 3). Plain values.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace trimtab::tuner::galvatron {

enum class Dimension : std::uint8_t { kData, kSharded, kTensor };

struct TreeLevel {
  Dimension dimension = Dimension::kData;
  std::int32_t degree = 1;
  bool operator==(const TreeLevel&) const = default;
};

// A path through a decision tree: at most one level for each dimension, the outermost first. Devices of the innermost
// level are neighbours. A layer on one device has no level.
struct LayerStrategy {
  std::array<TreeLevel, 3> levels{};
  std::int32_t depth = 0;
  bool recompute = false;

  [[nodiscard]] std::int32_t degree(Dimension dimension) const;
  [[nodiscard]] std::int32_t dp() const { return degree(Dimension::kData); }
  [[nodiscard]] std::int32_t sharded() const { return degree(Dimension::kSharded); }
  [[nodiscard]] std::int32_t tp() const { return degree(Dimension::kTensor); }
  [[nodiscard]] std::int32_t replicas() const { return dp() * sharded(); }
  // Tensor-parallel ranks are neighbours; also where there are none.
  [[nodiscard]] bool tp_consecutive() const;
  // Replicas are neighbours; also where there are none.
  [[nodiscard]] bool replicas_consecutive() const;
  // Another strategy but for what it recomputes.
  [[nodiscard]] bool same_split(const LayerStrategy& other) const {
    return levels == other.levels && depth == other.depth;
  }
  // Replicas are outside of shards, tensor-parallel ranks innermost or outermost: what a plan can say. Other orders of
  // replicas and shards cost the same; ranks between them are neighbours as little as either.
  [[nodiscard]] bool in_document_order() const;
  // As the publication writes it: "1-2*-4f-c".
  [[nodiscard]] std::string text(std::int32_t stages) const;
  bool operator==(const LayerStrategy&) const = default;
};

// dp replicas (all of them sharding their states, or none) of tp ranks.
[[nodiscard]] LayerStrategy layer_strategy(std::int32_t dp, std::int32_t tp, bool sharded, bool tp_consecutive,
                                           bool recompute);

struct TreeRules {
  bool mixes = false;  // replicas of shards: takeaway 3 leaves them out
  bool recompute = true;
  bool strided = true;             // tensor-parallel ranks that are not neighbours
  std::int32_t widest_tensor = 0;  // most tensor-parallel ranks; 0 = any
};

// Every strategy of a layer on so many devices. REQUIRES: a power of two.
[[nodiscard]] std::vector<LayerStrategy> decision_tree(std::int32_t devices, const TreeRules& rules);

}  // namespace trimtab::tuner::galvatron
