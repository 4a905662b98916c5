#pragma once

// Whether the wall clock can be trusted with what an age decides for good: for how long it has moved as the monotonic
// clock has. A clock that was wrong, and is set right, jumps; so does one that was right, and is set wrong. Time that a
// machine slept is a jump, too. One thread.

#include <algorithm>

#include "base/clock.hpp"

namespace trimtab {

class ClockAgreement {
 public:
  // What they may be apart, all in all, before it counts as a jump.
  static constexpr Nanoseconds kJump = std::chrono::hours(1);
  static constexpr Nanoseconds kTrusted = std::chrono::hours(24);

  // Both clocks as they are now, at the daemon's start.
  ClockAgreement(Nanoseconds monotonic, Nanoseconds wall) { begin(monotonic, wall); }

  // Both clocks as they are now. How far the wall clock has jumped since the last look that found a jump, or since the
  // start; 0 = it has not.
  Nanoseconds look(Nanoseconds monotonic, Nanoseconds wall) {
    const Nanoseconds apart = (wall - monotonic) - offset_;
    if (apart <= kJump && apart >= -kJump) return Nanoseconds(0);
    begin(monotonic, wall);
    return apart;
  }
  // Whether what is older than `age` may go: they have agreed for a day, or for `age` where that is less.
  [[nodiscard]] bool tells(Nanoseconds age, Nanoseconds monotonic) const {
    return monotonic - since_ >= std::min(age, kTrusted);
  }

 private:
  void begin(Nanoseconds monotonic, Nanoseconds wall) {
    since_ = monotonic;
    offset_ = wall - monotonic;
  }

  Nanoseconds since_{0};
  Nanoseconds offset_{0};
};

}  // namespace trimtab
