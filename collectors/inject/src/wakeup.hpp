#pragma once

// One thread waits, any thread or callback wakes it, also before it waits. No lock. Two steps of a futex, since
// sem_clockwait() is no function of the glibc that jobs may have (glibc_floor.h).

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "clock.hpp"

namespace trimtab::inject {

class Wakeup {
 public:
  constexpr Wakeup() = default;
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  void wake() {
    called_.store(1, std::memory_order_release);
    syscall(SYS_futex, &called_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }

  // For one thread at a time. All calls since the last wait are one. False when the time (CLOCK_MONOTONIC) was up.
  bool wait(std::uint64_t until_ns) {
    const timespec until{static_cast<time_t>(until_ns / kSecondNs), static_cast<long>(until_ns % kSecondNs)};
    while (called_.exchange(0, std::memory_order_acquire) == 0) {
      const long waited = syscall(SYS_futex, &called_, FUTEX_WAIT_BITSET_PRIVATE, 0, &until, nullptr,
                                  FUTEX_BITSET_MATCH_ANY);
      if (waited != 0 && errno != EINTR && errno != EAGAIN) return called_.exchange(0, std::memory_order_acquire) != 0;
    }
    return true;
  }

 private:
  std::atomic<std::uint32_t> called_{0};
};

}  // namespace trimtab::inject
