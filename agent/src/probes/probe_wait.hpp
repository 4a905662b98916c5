#pragma once

// Until when a probe's thread may wait, and whether it still should. A value that borrows; any thread.

#include <algorithm>
#include <atomic>
#include <string>

#include "base/clock.hpp"
#include "base/result.hpp"

namespace trimtab::agent {

struct ProbeWait {
  const Clock& clock;
  Nanoseconds deadline{0};  // of clock.monotonic()
  const std::atomic<bool>& cancelled;

  // What is left, at most `most`.
  [[nodiscard]] Nanoseconds left(Nanoseconds most) const {
    return std::clamp(deadline - clock.monotonic(), Nanoseconds(0), most);
  }
  // An error that says while what it ended.
  [[nodiscard]] Status check(const std::string& what) const {
    if (cancelled) return unavailable("the probe was cancelled while " + what);
    if (clock.monotonic() >= deadline) return unavailable("the probe's time was over while " + what);
    return {};
  }
};

}  // namespace trimtab::agent
