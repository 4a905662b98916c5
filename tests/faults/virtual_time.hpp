#pragma once

// Events in the order of a time that nobody waits for, and machines' clocks over it.

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/clock.hpp"

namespace trimtab::test {

class VirtualTime {
 public:
  [[nodiscard]] Nanoseconds now() const { return now_; }
  // Events of one moment come in the order in which they were asked for.
  void after(Nanoseconds delay, std::function<void()> work) {
    events_.emplace(std::pair(now_ + delay, ++asked_), std::move(work));
  }
  // Until there is no event before `end`.
  void run_until(Nanoseconds end) {
    while (!events_.empty() && events_.begin()->first.first <= end) {
      auto event = events_.extract(events_.begin());
      now_ = event.key().first;
      event.mapped()();
    }
    now_ = end;
  }

 private:
  Nanoseconds now_{0};
  std::uint64_t asked_ = 0;
  std::map<std::pair<Nanoseconds, std::uint64_t>, std::function<void()>> events_;
};

// Monotonic since the machine's start; its wall clock jumps when it is told to.
class MachineClock final : public Clock {
 public:
  explicit MachineClock(const VirtualTime& time) : time_(time) {}
  [[nodiscard]] Nanoseconds monotonic() const override { return time_.now() - started_ + Nanoseconds(1); }
  [[nodiscard]] Nanoseconds wall() const override { return time_.now() + skew_; }
  void restart() { started_ = time_.now(); }
  void jump_wall(Nanoseconds by) { skew_ += by; }

 private:
  const VirtualTime& time_;
  Nanoseconds started_{0};
  Nanoseconds skew_ = std::chrono::hours(24 * 365 * 50);
};

}  // namespace trimtab::test
