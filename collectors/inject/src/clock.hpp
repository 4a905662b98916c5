#pragma once

// Time stamps of records: CLOCK_REALTIME through the vDSO. Two calls a range cost more than two rdtsc would, and need
// no calibration that a migrated virtual machine or a stepped clock would break.

#include <time.h>

#include <cstdint>

namespace trimtab::inject {

inline constexpr std::uint64_t kSecondNs = 1'000'000'000;

inline std::uint64_t read_clock_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * kSecondNs + static_cast<std::uint64_t>(time.tv_nsec);
}

inline std::uint64_t now_ns() {
  return read_clock_ns(CLOCK_REALTIME);
}

}  // namespace trimtab::inject
