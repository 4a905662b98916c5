#include "papers/galvatron/layer_ranges.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace trimtab::tuner::galvatron {
namespace {

constexpr std::size_t kMostCounts = 1 << 23;

std::int32_t kinds_among(std::span<const std::int32_t> kinds) {
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

}  // namespace

bool LayerRanges::fit(std::span<const std::int32_t> kinds) {
  const auto width = static_cast<std::size_t>(kinds_among(kinds));
  return kinds.size() * (kinds.size() + 1) / 2 * width <= kMostCounts;
}

// A trie: the number of a range is the node that its kinds lead to.
LayerRanges::LayerRanges(std::span<const std::int32_t> kinds)
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

std::span<const std::int32_t> LayerRanges::kinds_of(std::int32_t number) const {
  const First& range = first_[static_cast<std::size_t>(number)];
  return all_.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.end - range.begin));
}

}  // namespace trimtab::tuner::galvatron
