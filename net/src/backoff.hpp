#pragma once

// When to try to connect again: doubling from 0.1 s to 5 s, each with a jitter of a half, so that the agents of a
// cluster do not all come back at once. A connection that lasted starts the sequence anew; one that was closed at once
// (a peer that refuses us) does not. A plain value.

#include "base/clock.hpp"
#include "base/random.hpp"

namespace trimtab::net {

class Backoff {
 public:
  static constexpr Nanoseconds kFirst = std::chrono::milliseconds(100);
  static constexpr Nanoseconds kLongest = std::chrono::seconds(5);
  static constexpr Nanoseconds kLasting = std::chrono::seconds(2);

  explicit Backoff(std::uint64_t seed) : random_(seed) {}

  // How long to wait after an attempt that was open for `open_for` (0: never opened).
  [[nodiscard]] Nanoseconds next(Nanoseconds open_for) {
    if (open_for >= kLasting) ceiling_ = kFirst;
    const Nanoseconds ceiling = ceiling_;
    ceiling_ = ceiling_ * 2 < kLongest ? ceiling_ * 2 : kLongest;
    return Nanoseconds(random_.between(ceiling.count() / 2, ceiling.count()));
  }

 private:
  Random random_;
  Nanoseconds ceiling_ = kFirst;
};

}  // namespace trimtab::net
