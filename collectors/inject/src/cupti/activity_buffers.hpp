#pragma once

// The memory that CUPTI fills with records: a fixed number of buffers of one size, mapped once, lent, taken back,
// zeroed and lent again; never freed, because CUPTI owns a buffer until it completes it. Any thread may call any
// method; none waits or allocates, except allocate().
//
// A few small scratch buffers stand in when the pool is empty and the release must not be refused: what CUPTI writes
// there is counted and thrown away. The last one may be lent twice at once.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace trimtab::inject::cupti {

class ActivityBuffers {
 public:
  static constexpr std::uint32_t kMaxBuffers = 256;
  static constexpr std::uint32_t kScratchBuffers = 16;
  static constexpr std::size_t kScratchBytes = 64 * 1024;

  enum class Origin {
    kPool,
    kScratch,
    kStale,    // ours, but not lent: completed twice
    kForeign,  // another client's
  };

  constexpr ActivityBuffers() = default;

  // Once, before the rest. `bytes` a multiple of 4096, `count` at most kMaxBuffers; the pages of the first four buffers
  // are made at once, the others' when they are first written. False without memory.
  bool allocate(std::uint32_t count, std::size_t bytes);

  // A zeroed buffer, or nullptr when all are lent.
  std::uint8_t* lend();
  std::uint8_t* lend_scratch();
  // Whose a completed buffer is.
  Origin take_back(const std::uint8_t* buffer);
  // After take_back() said kPool or kScratch and the records were read: zeroes what was used and lends it again.
  void recycle(std::uint8_t* buffer, std::size_t used);

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  // REQUIRES: one of the pool's.
  [[nodiscard]] std::size_t index_of(const std::uint8_t* buffer) const {
    return static_cast<std::size_t>(buffer - memory_) / bytes_;
  }
  [[nodiscard]] std::uint32_t lent() const;

  // Our callbacks are registered anew: what was lent before may have gone to another client meanwhile.
  void begin_era() { era_.fetch_add(1, std::memory_order_relaxed); }
  enum class Era { kPresent, kPast };
  // Buffers that are lent since then, or from before. They may be written to meanwhile: read with care.
  template <typename Visit>
  void for_each_lent(Era era, Visit visit) const {
    for (std::uint32_t i = 0; i < count_; ++i) {
      const bool lent = (lent_[i / 64].load(std::memory_order_acquire) >> (i % 64) & 1) != 0;
      const bool present = lent_in_[i].load(std::memory_order_relaxed) == era_.load(std::memory_order_relaxed);
      if (lent && present == (era == Era::kPresent)) visit(memory_ + i * bytes_);
    }
  }

 private:
  void recycle_scratch(std::uint8_t* buffer, std::size_t used);

  static constexpr std::uint32_t kWords = kMaxBuffers / 64;

  std::uint8_t* memory_ = nullptr;
  std::uint8_t* scratch_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint32_t count_ = 0;
  std::atomic<std::uint64_t> free_[kWords] = {};
  std::atomic<std::uint64_t> lent_[kWords] = {};
  std::atomic<std::uint32_t> lent_in_[kMaxBuffers] = {};  // era
  std::atomic<std::uint32_t> era_{0};
  std::atomic<std::uint32_t> scratch_lent_{0};  // bits; that of the last one says nothing
};

}  // namespace trimtab::inject::cupti
