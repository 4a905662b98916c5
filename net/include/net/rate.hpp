#pragma once

// How fast peers and callers are served. Plain values; the time comes in.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/clock.hpp"

namespace trimtab::net {

// How fast a peer's frames are read; what comes faster is read later, and waits on its side. A plain value.
struct Rate {
  std::uint32_t frames_per_second = 0;  // 0 = no limit
  std::uint64_t bytes_per_second = 0;   // 0 = no limit; else at least the largest frame, or that one waits for seconds
};

// How fast a peer's frames are read, and their bytes. One second's worth may come at once; who sends more is read
// later, and finds its own side of the connection full: nothing is lost and nothing waits in our memory. A plain value;
// the time comes in.
class RateLimit {
 public:
  static constexpr Nanoseconds kBurst = std::chrono::seconds(1);
  // Waiting for single frames would cost more than reading them.
  static constexpr Nanoseconds kShortestPause = std::chrono::milliseconds(10);

  explicit RateLimit(const Rate& rate)
      : each_(rate.frames_per_second == 0 ? Nanoseconds(0)
                                          : Nanoseconds(std::chrono::seconds(1)) / rate.frames_per_second),
        bytes_per_second_(rate.bytes_per_second) {}

  // A frame has come; `now` is monotonic. How long to wait before the next one is read, mostly 0. A frame costs what
  // one may, or what its bytes may, whichever is more.
  [[nodiscard]] Nanoseconds take(Nanoseconds now, std::size_t bytes) {
    paid_until_ = std::max(paid_until_, now) + std::max(each_, cost_of(bytes));
    const Nanoseconds ahead = paid_until_ - now - kBurst;
    return ahead <= Nanoseconds(0) ? Nanoseconds(0) : std::max(ahead, kShortestPause);
  }

 private:
  [[nodiscard]] Nanoseconds cost_of(std::size_t bytes) const {
    if (bytes_per_second_ == 0) return Nanoseconds(0);
    return Nanoseconds(
        static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_per_second_)));
  }

  Nanoseconds each_;
  std::uint64_t bytes_per_second_;
  Nanoseconds paid_until_{0};
};

// How fast requests of people and scripts are answered: of each caller so many a second, and `burst` seconds' worth of
// them at once. Bounded: beyond kMostCallers those that nobody knows by name share one allowance. The time comes in.
class RequestRate {
 public:
  static constexpr Nanoseconds kBurst = std::chrono::seconds(5);
  static constexpr std::size_t kMostCallers = 4096;

  // REQUIRES: per_second > 0. Who is refused is answered again a second later, or sooner.
  explicit RequestRate(std::uint32_t per_second, Nanoseconds burst = kBurst)
      : each_(Nanoseconds(std::chrono::seconds(1)) / per_second), burst_(burst) {}

  // Whether a request of this caller that has come is to be answered; one that is not does not count. `now` is
  // monotonic. One request may cost as much as several; one that costs more than a burst costs a burst.
  [[nodiscard]] bool take(const std::string& caller, Nanoseconds now, std::uint64_t cost = 1);
  [[nodiscard]] std::size_t callers() const { return paid_until_.size(); }

 private:
  Nanoseconds& account_of(const std::string& caller, Nanoseconds now);

  Nanoseconds each_;
  Nanoseconds burst_;
  std::map<std::string, Nanoseconds> paid_until_;
  Nanoseconds others_paid_until_{0};
};

}  // namespace trimtab::net
