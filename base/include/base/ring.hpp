#pragma once

// A bounded queue between threads of one process: any thread pushes, one thread pops. Nobody waits and nothing is
// allocated after construction: a full ring drops the new item and counts it, so that a slow reader never slows what it
// watches. Vyukov's bounded queue, with one consumer.

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/check.hpp"

namespace trimtab {

template <typename T>
class Ring {
 public:
  static_assert(std::is_nothrow_move_constructible_v<T>, "an exception between claim and release would block the ring");

  // REQUIRES: capacity is a power of two, at least 2.
  explicit Ring(std::size_t capacity) : mask_(capacity - 1), slots_(std::make_unique<Slot[]>(capacity)) {
    TRIMTAB_ASSERT(capacity >= 2 && std::has_single_bit(capacity), "a ring's capacity is a power of two");
    for (std::size_t i = 0; i < capacity; ++i) slots_[i].turn.store(i, std::memory_order_relaxed);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Any thread. False, and counted in dropped(), when the ring is full.
  bool push(T item) {
    std::uint64_t ticket = head_.load(std::memory_order_relaxed);
    for (;;) {
      Slot& slot = slots_[ticket & mask_];
      const auto behind = static_cast<std::int64_t>(slot.turn.load(std::memory_order_acquire) - ticket);
      if (behind < 0) {
        dropped_.fetch_add(1, std::memory_order_relaxed);
        return false;
      }
      if (behind > 0) {
        ticket = head_.load(std::memory_order_relaxed);
      } else if (head_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed)) {
        slot.item.emplace(std::move(item));
        slot.turn.store(ticket + 1, std::memory_order_release);
        return true;
      }
    }
  }

  // One thread at a time. Nothing when the ring is empty, or when the next item is claimed but not yet written.
  [[nodiscard]] std::optional<T> pop() {
    Slot& slot = slots_[tail_ & mask_];
    if (slot.turn.load(std::memory_order_acquire) != tail_ + 1) return std::nullopt;
    std::optional<T> item = std::move(slot.item);
    slot.item.reset();
    slot.turn.store(tail_ + mask_ + 1, std::memory_order_release);
    ++tail_;
    return item;
  }

  // Any thread: items that found the ring full, since construction.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t capacity() const { return mask_ + 1; }

 private:
  // `turn` equals a producer's ticket while the slot is free for it, and ticket + 1 while it holds that item.
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> turn{0};
    std::optional<T> item;
  };

  const std::size_t mask_;
  const std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  alignas(64) std::atomic<std::uint64_t> dropped_{0};
  alignas(64) std::uint64_t tail_ = 0;  // the consumer's
};

}  // namespace trimtab
