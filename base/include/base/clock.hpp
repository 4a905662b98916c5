#pragma once

// Time comes in as an argument: production passes SystemClock, tests a ManualClock, so no test sleeps.

#include <chrono>

namespace trimtab {

using Nanoseconds = std::chrono::nanoseconds;

// Any thread may call an implementation's methods.
class Clock {
 public:
  virtual ~Clock() = default;
  // Since an arbitrary start; never goes back. All deadlines and liveness use this one.
  [[nodiscard]] virtual Nanoseconds monotonic() const = 0;
  // Since the Unix epoch; may jump. For people and for stored dates only.
  [[nodiscard]] virtual Nanoseconds wall() const = 0;
};

class SystemClock final : public Clock {
 public:
  [[nodiscard]] Nanoseconds monotonic() const override;
  [[nodiscard]] Nanoseconds wall() const override;
};

// Moves only when told to. Single-threaded.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] Nanoseconds monotonic() const override { return monotonic_; }
  [[nodiscard]] Nanoseconds wall() const override { return wall_; }
  void advance(Nanoseconds by) {
    monotonic_ += by;
    wall_ += by;
  }
  void jump_wall(Nanoseconds by) { wall_ += by; }

 private:
  Nanoseconds monotonic_{1};
  Nanoseconds wall_{1'700'000'000'000'000'000};
};

}  // namespace trimtab
