#pragma once

// How fast a peer's frames are read. One second's worth may come at once; who sends more is read later, and finds its
// own side of the connection full: nothing is lost and nothing waits in our memory. A plain value; the time comes in.

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"

namespace trimtab::net {

class RateLimit {
 public:
  static constexpr Nanoseconds kBurst = std::chrono::seconds(1);
  // Waiting for single frames would cost more than reading them.
  static constexpr Nanoseconds kShortestPause = std::chrono::milliseconds(10);

  // 0 = no limit.
  explicit RateLimit(std::uint32_t frames_per_second)
      : each_(frames_per_second == 0 ? Nanoseconds(0) : Nanoseconds(std::chrono::seconds(1)) / frames_per_second) {}

  // A frame has come; `now` is monotonic. How long to wait before the next one is read, mostly 0.
  [[nodiscard]] Nanoseconds take(Nanoseconds now) {
    paid_until_ = std::max(paid_until_, now) + each_;
    const Nanoseconds ahead = paid_until_ - now - kBurst;
    return ahead <= Nanoseconds(0) ? Nanoseconds(0) : std::max(ahead, kShortestPause);
  }

 private:
  Nanoseconds each_;
  Nanoseconds paid_until_{0};
};

}  // namespace trimtab::net
