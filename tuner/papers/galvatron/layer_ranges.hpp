#pragma once

// Which ranges of layers are alike: the same kinds in the same order. What was worked out for one holds for all of
// them. Immutable.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.hpp"

namespace trimtab::tuner::galvatron {

class LayerRanges {
 public:
  // Whether there is memory for them: ranges times kinds, as if no two ranges were alike.
  [[nodiscard]] static bool fit(std::span<const std::int32_t> kinds) {
    const auto width = static_cast<std::size_t>(kinds_among(kinds));
    return kinds.size() * (kinds.size() + 1) / 2 * width <= kMostCounts;
  }
  // The kind of each layer, from 0. Borrows them. REQUIRES: fit().
  // A trie: the number of a range is the node that its kinds lead to.
  explicit LayerRanges(std::span<const std::int32_t> kinds)
      : all_(kinds), layers_(static_cast<std::int32_t>(kinds.size())), kinds_of_all_(kinds_among(kinds)) {
    TRIMTAB_ASSERT(fit(kinds), "layers of so many kinds must be refused before");
    const auto width = static_cast<std::size_t>(kinds_of_all_);
    numbers_.assign(kinds.size() * kinds.size(), -1);
    Children children(width);
    std::vector<std::int32_t> count(width);
    for (std::int32_t begin = 0; begin < layers_; ++begin) {
      std::fill(count.begin(), count.end(), 0);
      std::int32_t at = -1;
      for (std::int32_t end = begin + 1; end <= layers_; ++end) {
        const std::int32_t kind = kinds[static_cast<std::size_t>(end - 1)];
        ++count[static_cast<std::size_t>(kind)];
        const std::int32_t added = this->count();
        at = children.child(at, kind, added);
        if (at == added) {
          first_.push_back({begin, end});
          counts_.insert(counts_.end(), count.begin(), count.end());
        }
        numbers_[static_cast<std::size_t>(begin) * kinds.size() + static_cast<std::size_t>(end - 1)] = at;
      }
    }
  }

  [[nodiscard]] std::int32_t layers() const { return layers_; }
  [[nodiscard]] std::int32_t kinds() const { return kinds_of_all_; }
  // Of ranges that are not alike.
  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(first_.size()); }
  // Number of [begin, end); begin < end.
  [[nodiscard]] std::int32_t number(std::int32_t begin, std::int32_t end) const {
    return numbers_[static_cast<std::size_t>(begin) * static_cast<std::size_t>(layers_) +
                    static_cast<std::size_t>(end - 1)];
  }
  // One range of a number, and how many layers of a kind it has.
  [[nodiscard]] std::span<const std::int32_t> kinds_of(std::int32_t number) const {
    const First& range = first_[static_cast<std::size_t>(number)];
    return all_.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.end - range.begin));
  }
  [[nodiscard]] std::int32_t layers_of(std::int32_t number, std::int32_t kind) const {
    return counts_[static_cast<std::size_t>(number) * static_cast<std::size_t>(kinds_of_all_) +
                   static_cast<std::size_t>(kind)];
  }

 private:
  static constexpr std::size_t kMostCounts = 1 << 23;
  static std::int32_t kinds_among(std::span<const std::int32_t> kinds) {
    return kinds.empty() ? 0 : *std::max_element(kinds.begin(), kinds.end()) + 1;
  }

  // The children of a trie's nodes, of which most have one.
  class Children {
   public:
    explicit Children(std::size_t kinds) : root_(kinds, -1) {}

    // The child of a node, -1 = the root; `added` where it has none yet.
    std::int32_t child(std::int32_t node, std::int32_t kind, std::int32_t added) {
      std::int32_t* at =
          node < 0 ? &root_[static_cast<std::size_t>(kind)] : &nodes_[static_cast<std::size_t>(node)].first;
      while (*at >= 0 && nodes_[static_cast<std::size_t>(*at)].kind != kind) {
        at = &nodes_[static_cast<std::size_t>(*at)].sibling;
      }
      if (*at >= 0) return *at;
      *at = added;
      nodes_.push_back({kind});
      return added;
    }

   private:
    struct Node {
      std::int32_t kind = 0;
      std::int32_t first = -1;
      std::int32_t sibling = -1;
    };
    std::vector<std::int32_t> root_;  // by kind
    std::vector<Node> nodes_;
  };

  struct First {
    std::int32_t begin = 0;
    std::int32_t end = 0;
  };

  std::span<const std::int32_t> all_;
  std::int32_t layers_ = 0;
  std::int32_t kinds_of_all_ = 0;
  std::vector<std::int32_t> numbers_;
  std::vector<First> first_;
  std::vector<std::int32_t> counts_;
};

}  // namespace trimtab::tuner::galvatron
