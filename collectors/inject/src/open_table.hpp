#pragma once

// Ranges that one thread may start and another end (nvtxRangeStart, nvtxRangeEnd): a bounded table, lock-free. Any
// thread may call any method; no call waits.

#include <atomic>
#include <cstdint>

#include "thread_state.hpp"

namespace trimtab::inject {

inline constexpr std::uint32_t kMaxStarted = 1024;  // a power of two

struct StartedRange {
  std::atomic<std::uint64_t> id{0};  // 0 free, kBusy being written or taken out
  OpenRange range;
  std::atomic<std::uint32_t> thread{0};
};

class OpenTable {
 public:
  // The range's id; 0 when there is no room.
  std::uint64_t start(const ClosedRange& range, std::uint32_t thread);
  // False for an id that is not open. An id is open for exactly one end().
  bool end(std::uint64_t id, ClosedRange& range, std::uint32_t& thread);
  // In a forked child.
  void clear();

  // Takes out all that are open. For the end of the process.
  template <typename Visit>
  void drain(Visit visit) {
    for (StartedRange& slot : slots_) {
      ClosedRange range;
      std::uint32_t thread = 0;
      if (end(slot.id.load(std::memory_order_relaxed), range, thread)) visit(range, thread);
    }
  }

 private:
  StartedRange slots_[kMaxStarted];
  std::atomic<std::uint64_t> serial_{1};
};

}  // namespace trimtab::inject
