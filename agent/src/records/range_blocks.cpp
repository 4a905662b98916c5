#include "records/range_blocks.hpp"

#include <algorithm>

namespace trimtab::agent {

void KernelWork::merge(const KernelWork& other) {
  device_ns += other.device_ns;
  kernels += other.kernels;
  last_ns = std::max(last_ns, other.last_ns);
  if (other.first_ns != 0 && (first_ns == 0 || other.first_ns < first_ns)) first_ns = other.first_ns;
  launches += other.launches;
  matched += other.matched;
}

RangeBlocks::Range* RangeBlocks::at(std::uint32_t id, std::uint64_t newest_ns) {
  const std::uint32_t number = id / block_ranges_;
  Block* block = find(number);
  if (block == nullptr) block = admit(number, newest_ns);
  return block == nullptr ? nullptr : &block->ranges[id % block_ranges_];
}

void RangeBlocks::ended(std::uint32_t id, std::uint64_t end_ns) {
  if (Block* block = find(id / block_ranges_)) block->last_ns = std::max(block->last_ns, end_ns);
}

void RangeBlocks::forget_times() {
  for (Block& block : blocks_) block.last_ns = 0;
}

RangeBlocks::Block* RangeBlocks::find(std::uint32_t number) {
  if (latest_ < blocks_.size() && blocks_[latest_].number == number) return &blocks_[latest_];
  const auto found = std::ranges::find(blocks_, number, &Block::number);
  if (found == blocks_.end()) return nullptr;
  latest_ = static_cast<std::size_t>(found - blocks_.begin());
  return &*found;
}

// Numbers wrap around with the ids.
bool RangeBlocks::decided(std::uint32_t number) const {
  if (!any_) return false;
  const auto ahead = static_cast<std::int32_t>((number - newest_) * block_ranges_);
  return ahead <= 0 && ahead / static_cast<std::int64_t>(block_ranges_) > -kCountedAnew;
}

RangeBlocks::Block* RangeBlocks::admit(std::uint32_t number, std::uint64_t newest_ns) {
  if (decided(number)) return nullptr;
  newest_ = number;
  any_ = true;
  Block* block = room(newest_ns);
  if (block == nullptr) return nullptr;
  block->number = number;
  block->last_ns = newest_ns;
  block->ranges.assign(block_ranges_, {});
  return block;
}

RangeBlocks::Block* RangeBlocks::room(std::uint64_t newest_ns) {
  if (blocks_.size() < most_) return &blocks_.emplace_back();
  const auto oldest = std::ranges::min_element(blocks_, {}, &Block::last_ns);
  return newest_ns > oldest->last_ns + settle_ns_ ? &*oldest : nullptr;
}

}  // namespace trimtab::agent
