#include "papers/aceso/range_max.hpp"

namespace trimtab::tuner::aceso {

RangeMax::RangeMax(std::span<const double> values)
    : count_(values.size()), blocks_((values.size() + (std::size_t{1} << kShift) - 1) >> kShift) {
  constexpr std::size_t kBlock = std::size_t{1} << kShift;
  const auto levels = static_cast<std::size_t>(std::bit_width(blocks_));
  numbers_.reserve(level_begin(levels));
  for (int copy = 0; copy < 3; ++copy) numbers_.insert(numbers_.end(), values.begin(), values.end());
  double* const from_block_begin = numbers_.data() + count_;
  double* const to_block_end = from_block_begin + count_;
  for (std::size_t i = 1; i < count_; ++i) {
    if (i % kBlock != 0) from_block_begin[i] = std::max(from_block_begin[i], from_block_begin[i - 1]);
  }
  for (std::size_t i = count_; i-- > 1;) {
    if (i % kBlock != 0) to_block_end[i - 1] = std::max(to_block_end[i - 1], to_block_end[i]);
  }
  for (std::size_t i = 0; i < count_; i += kBlock) numbers_.push_back(to_block_end[i]);
  for (std::size_t level = 1; level < levels; ++level) {
    const double* const narrow = numbers_.data() + level_begin(level - 1);
    const std::size_t width = std::size_t{1} << (level - 1);
    for (std::size_t i = 0; i + 2 * width <= blocks_; ++i) numbers_.push_back(std::max(narrow[i], narrow[i + width]));
  }
}

}  // namespace trimtab::tuner::aceso
