#pragma once

// The largest of consecutive numbers in constant time: maxima inside blocks of 16 and a doubling table over the blocks.
// Immutable once built; any thread.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trimtab::tuner::aceso {

class RangeMax {
 public:
  RangeMax() = default;
  explicit RangeMax(std::vector<double> values);

  // The largest of values [begin, end); 0 where there is none.
  [[nodiscard]] double operator()(std::int32_t begin, std::int32_t end) const {
    if (begin >= end) return 0;
    const std::int32_t last = end - 1;
    const std::int32_t first_block = begin >> kShift;
    const std::int32_t last_block = last >> kShift;
    if (first_block == last_block) return *std::max_element(values_.begin() + begin, values_.begin() + end);
    const double edges = std::max(to_block_end_[begin], from_block_begin_[last]);
    return last_block - first_block < 2 ? edges : std::max(edges, blocks(first_block + 1, last_block));
  }
  [[nodiscard]] double at(std::int32_t index) const { return values_[index]; }

 private:
  static constexpr std::int32_t kShift = 4;

  [[nodiscard]] double blocks(std::int32_t begin, std::int32_t end) const {
    const auto level = static_cast<std::size_t>(std::bit_width(static_cast<std::uint32_t>(end - begin)) - 1);
    return std::max(doubling_[level][begin], doubling_[level][end - (std::int32_t{1} << level)]);
  }

  std::vector<double> values_;
  std::vector<double> from_block_begin_;       // largest of the block up to here
  std::vector<double> to_block_end_;           // and from here on
  std::vector<std::vector<double>> doubling_;  // by level, block: the largest of 2^level blocks
};

}  // namespace trimtab::tuner::aceso
