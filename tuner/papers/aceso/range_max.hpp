#pragma once

// The largest of consecutive numbers in constant time: maxima inside blocks of 16 and a doubling table over the blocks.
// Immutable once built; any thread.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trimtab::tuner::aceso {

class RangeMax {
 public:
  RangeMax() = default;
  explicit RangeMax(std::span<const double> values);

  // The largest of values [begin, end); 0 where there is none.
  [[nodiscard]] double operator()(std::int32_t begin, std::int32_t end) const {
    if (begin >= end) return 0;
    const std::int32_t last = end - 1;
    const std::int32_t first_block = begin >> kShift;
    const std::int32_t last_block = last >> kShift;
    const double* const values = numbers_.data();
    if (first_block == last_block) return *std::max_element(values + begin, values + end);
    const double edges = std::max(values[2 * count_ + begin], values[count_ + last]);
    return last_block - first_block < 2 ? edges : std::max(edges, blocks(first_block + 1, last_block));
  }
  [[nodiscard]] double at(std::int32_t index) const { return numbers_[index]; }

 private:
  static constexpr std::int32_t kShift = 4;

  [[nodiscard]] double blocks(std::int32_t begin, std::int32_t end) const {
    const auto level = static_cast<std::size_t>(std::bit_width(static_cast<std::uint32_t>(end - begin)) - 1);
    const double* const largest = numbers_.data() + level_begin(level);
    return std::max(largest[begin], largest[end - (std::int32_t{1} << level)]);
  }
  // A level has 2^level - 1 fewer numbers than there are blocks.
  [[nodiscard]] std::size_t level_begin(std::size_t level) const {
    return 3 * count_ + level * (blocks_ + 1) + 1 - (std::size_t{1} << level);
  }

  std::size_t count_ = 0, blocks_ = 0;
  // One after the other: the values; by value, the largest of its block up to here, and from here on; by level and
  // block, the largest of 2^level blocks.
  std::vector<double> numbers_;
};

}  // namespace trimtab::tuner::aceso
