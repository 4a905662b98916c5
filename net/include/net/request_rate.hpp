#pragma once

// How fast requests of people and scripts are answered: of each caller so many a second, five seconds' worth of them at
// once. Bounded: beyond kMostCallers those that nobody knows by name share one allowance. The time comes in.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/clock.hpp"

namespace trimtab::net {

class RequestRate {
 public:
  static constexpr Nanoseconds kBurst = std::chrono::seconds(5);
  static constexpr std::size_t kMostCallers = 4096;

  // REQUIRES: per_second > 0. Who is refused is answered again a second later, or sooner.
  explicit RequestRate(std::uint32_t per_second) : each_(Nanoseconds(std::chrono::seconds(1)) / per_second) {}

  // Whether a request of this caller that has come is to be answered; one that is not does not count. `now` is
  // monotonic.
  [[nodiscard]] bool take(const std::string& caller, Nanoseconds now);
  [[nodiscard]] std::size_t callers() const { return paid_until_.size(); }

 private:
  Nanoseconds& account_of(const std::string& caller, Nanoseconds now);

  Nanoseconds each_;
  std::map<std::string, Nanoseconds> paid_until_;
  Nanoseconds others_paid_until_{0};
};

}  // namespace trimtab::net
