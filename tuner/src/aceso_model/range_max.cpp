#include "range_max.hpp"

namespace trimtab::tuner::aceso {

RangeMax::RangeMax(std::vector<double> values)
    : values_(std::move(values)), from_block_begin_(values_), to_block_end_(values_) {
  const std::size_t count = values_.size();
  constexpr std::size_t kBlock = std::size_t{1} << kShift;
  for (std::size_t i = 1; i < count; ++i) {
    if (i % kBlock != 0) from_block_begin_[i] = std::max(from_block_begin_[i], from_block_begin_[i - 1]);
  }
  for (std::size_t i = count; i-- > 1;) {
    if (i % kBlock != 0) to_block_end_[i - 1] = std::max(to_block_end_[i - 1], to_block_end_[i]);
  }
  doubling_.emplace_back();
  for (std::size_t i = 0; i < count; i += kBlock) doubling_[0].push_back(to_block_end_[i]);
  for (std::size_t width = 1; 2 * width <= doubling_[0].size(); width *= 2) {
    const std::vector<double>& narrow = doubling_.back();
    std::vector<double> wide(narrow.size() - width);
    for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = std::max(narrow[i], narrow[i + width]);
    doubling_.push_back(std::move(wide));
  }
}

}  // namespace trimtab::tuner::aceso
