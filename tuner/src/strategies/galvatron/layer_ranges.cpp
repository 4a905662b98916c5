#include "strategies/galvatron/layer_ranges.hpp"

#include <algorithm>

namespace trimtab::tuner::galvatron {

// A trie: the number of a range is the node that its kinds lead to.
LayerRanges::LayerRanges(std::span<const std::int32_t> kinds)
    : all_(kinds), layers_(static_cast<std::int32_t>(kinds.size())) {
  for (const std::int32_t kind : kinds) kinds_of_all_ = std::max(kinds_of_all_, kind + 1);
  const auto width = static_cast<std::size_t>(kinds_of_all_);
  numbers_.assign(kinds.size() * kinds.size(), -1);
  std::vector<std::int32_t> root(width, -1);
  std::vector<std::int32_t> next;  // [number * width + kind]
  std::vector<std::int32_t> count(width);
  for (std::int32_t begin = 0; begin < layers_; ++begin) {
    std::fill(count.begin(), count.end(), 0);
    std::int32_t at = -1;
    for (std::int32_t end = begin + 1; end <= layers_; ++end) {
      const auto kind = static_cast<std::size_t>(kinds[static_cast<std::size_t>(end - 1)]);
      ++count[kind];
      std::int32_t& child = at < 0 ? root[kind] : next[static_cast<std::size_t>(at) * width + kind];
      std::int32_t found = child;
      if (found < 0) {
        found = child = this->count();
        first_.push_back({begin, end});
        counts_.insert(counts_.end(), count.begin(), count.end());
        next.insert(next.end(), width, -1);
      }
      at = found;
      numbers_[static_cast<std::size_t>(begin) * kinds.size() + static_cast<std::size_t>(end - 1)] = at;
    }
  }
}

std::span<const std::int32_t> LayerRanges::kinds_of(std::int32_t number) const {
  const First& range = first_[static_cast<std::size_t>(number)];
  return all_.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.end - range.begin));
}

}  // namespace trimtab::tuner::galvatron
