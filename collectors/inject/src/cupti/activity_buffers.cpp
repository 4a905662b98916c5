#include "activity_buffers.hpp"

#include <sys/mman.h>

#include <bit>
#include <cstring>

namespace trimtab::inject::cupti {

namespace {

constexpr std::uint32_t kPopulated = 4;
constexpr std::size_t kPage = 4096;

std::uint8_t* map_bytes(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(memory);
}

}  // namespace

bool ActivityBuffers::allocate(std::uint32_t count, std::size_t bytes) {
  memory_ = map_bytes(count * bytes);
  scratch_ = map_bytes(kScratchBuffers * kScratchBytes);
  if (memory_ == nullptr || scratch_ == nullptr) return false;
  count_ = count;
  bytes_ = bytes;
  for (std::size_t at = 0; at < (count < kPopulated ? count : kPopulated) * bytes; at += kPage) {
    static_cast<volatile std::uint8_t*>(memory_)[at] = 0;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    free_[i / 64].fetch_or(std::uint64_t{1} << (i % 64), std::memory_order_release);
  }
  return true;
}

std::uint8_t* ActivityBuffers::lend() {
  for (std::uint32_t word = 0; word < kWords; ++word) {
    std::uint64_t free = free_[word].load(std::memory_order_relaxed);
    while (free != 0) {
      const std::uint64_t lowest = free & (~free + 1);
      if (!free_[word].compare_exchange_weak(free, free & ~lowest, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
        continue;
      }
      const std::uint32_t index = word * 64 + static_cast<std::uint32_t>(std::countr_zero(lowest));
      lent_in_[index].store(era_.load(std::memory_order_relaxed), std::memory_order_relaxed);
      lent_[word].fetch_or(lowest, std::memory_order_release);
      return memory_ + index * bytes_;
    }
  }
  return nullptr;
}

std::uint8_t* ActivityBuffers::lend_scratch() {
  std::uint32_t lent = scratch_lent_.load(std::memory_order_relaxed);
  for (;;) {
    const auto index = static_cast<std::uint32_t>(std::countr_one(lent));
    if (index >= kScratchBuffers - 1) return scratch_ + (kScratchBuffers - 1) * kScratchBytes;
    if (scratch_lent_.compare_exchange_weak(lent, lent | 1U << index, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
      return scratch_ + index * kScratchBytes;
    }
  }
}

ActivityBuffers::Origin ActivityBuffers::take_back(const std::uint8_t* buffer) {
  if (buffer >= scratch_ && buffer < scratch_ + kScratchBuffers * kScratchBytes) {
    return Origin::kScratch;
  }
  if (buffer < memory_ || buffer >= memory_ + count_ * bytes_) return Origin::kForeign;
  const auto offset = static_cast<std::size_t>(buffer - memory_);
  if (offset % bytes_ != 0) return Origin::kStale;
  const std::size_t index = offset / bytes_;
  const std::uint64_t bit = std::uint64_t{1} << (index % 64);
  const std::uint64_t lent = lent_[index / 64].fetch_and(~bit, std::memory_order_acquire);
  return (lent & bit) != 0 ? Origin::kPool : Origin::kStale;
}

void ActivityBuffers::recycle(std::uint8_t* buffer, std::size_t used) {
  if (buffer >= scratch_ && buffer < scratch_ + kScratchBuffers * kScratchBytes) return recycle_scratch(buffer, used);
  std::memset(buffer, 0, used < bytes_ ? used : bytes_);
  const std::size_t index = static_cast<std::size_t>(buffer - memory_) / bytes_;
  free_[index / 64].fetch_or(std::uint64_t{1} << (index % 64), std::memory_order_release);
}

// The last one is left as it is: somebody else may be writing there.
void ActivityBuffers::recycle_scratch(std::uint8_t* buffer, std::size_t used) {
  const std::size_t index = static_cast<std::size_t>(buffer - scratch_) / kScratchBytes;
  if (index == kScratchBuffers - 1) return;
  std::memset(buffer, 0, used < kScratchBytes ? used : kScratchBytes);
  scratch_lent_.fetch_and(~(1U << index), std::memory_order_release);
}

std::uint32_t ActivityBuffers::lent() const {
  int lent = 0;
  for (const auto& word : lent_) lent += std::popcount(word.load(std::memory_order_relaxed));
  return static_cast<std::uint32_t>(lent);
}

}  // namespace trimtab::inject::cupti
