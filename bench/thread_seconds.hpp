#pragma once

// Seconds of the calling thread, so that what else runs on the machine does not count.

#include <ctime>

namespace trimtab::bench {

inline double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace trimtab::bench
