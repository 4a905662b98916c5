#pragma once

// The clocks that ranks' stamps were taken with, and how far one is ahead of another: hard bounds
// (collective_join.hpp). Pure.

#include <cstdint>
#include <optional>

#include "base/clock_difference.hpp"

namespace trimtab::coordinator {

// How far the clock of a stamp is ahead of the coordinator's: by both together.
struct StampClock {
  std::uint32_t node = 0;                            // the same number is the same host clock
  ClockDifference::Offset gpu = {};                  // the GPU's, of its host's
  std::optional<ClockDifference::Offset> host = {};  // the host's, of the coordinator's; not needed within one host
};

// No stamp is later.
inline constexpr std::uint64_t kLatestStamp = std::uint64_t{1} << 61;

// What a peer says of the clock of a stamp that begins then, as far as it can be true.
[[nodiscard]] std::optional<StampClock> usable_clock(std::optional<StampClock> clock, std::uint64_t begin_ns);

// How far the first clock is ahead of the second. Nothing where nobody has compared them.
struct Between {
  std::int64_t ahead = 0;
  std::int64_t unsure = 0;
  [[nodiscard]] std::int64_t least() const { return ahead - unsure; }
  [[nodiscard]] std::int64_t most() const { return ahead + unsure; }
};
[[nodiscard]] std::optional<Between> between(const std::optional<StampClock>& first,
                                             const std::optional<StampClock>& second);

// Of two stamps; below kLatestStamp it never overflows.
[[nodiscard]] inline std::int64_t difference(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::int64_t>(a) - static_cast<std::int64_t>(b);
}

}  // namespace trimtab::coordinator
