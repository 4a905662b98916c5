#pragma once

// Which ranges of layers are alike: the same kinds in the same order. What was worked out for one holds for all of
// them. Immutable.

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab::tuner::galvatron {

class LayerRanges {
 public:
  // Whether there is memory for them: ranges times kinds, as if no two ranges were alike.
  [[nodiscard]] static bool fit(std::span<const std::int32_t> kinds);
  // The kind of each layer, from 0. Borrows them. REQUIRES: fit().
  explicit LayerRanges(std::span<const std::int32_t> kinds);

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
  [[nodiscard]] std::span<const std::int32_t> kinds_of(std::int32_t number) const;
  [[nodiscard]] std::int32_t layers_of(std::int32_t number, std::int32_t kind) const {
    return counts_[static_cast<std::size_t>(number) * static_cast<std::size_t>(kinds_of_all_) +
                   static_cast<std::size_t>(kind)];
  }

 private:
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
