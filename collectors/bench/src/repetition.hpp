#pragma once

// Repeats a measurement until it is precise enough, on all ranks alike, and leaves out what was measured at another
// clock. And medians, and how sure they are.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "device.hpp"

namespace trimtab::bench {

// REQUIRES: not empty. Of an even number of values the mean of the middle two.
[[nodiscard]] double median(std::vector<double> values);

struct Estimate {
  double value = 0;  // the median
  double low = 0;    // of its 95 % interval
  double high = 0;
  std::size_t count = 0;
};

// The median of `values` with the percentile bootstrap's 95 % interval (Efron and Tibshirani 1993, section 13.3) from
// 2000 resamples. REQUIRES: not empty.
[[nodiscard]] Estimate bootstrap_median(std::span<const double> values, Random& random);

// Is the 95 % interval of the mean (Student's t) within `relative_error` of it? False for fewer than two values.
[[nodiscard]] bool precise_enough(std::span<const double> values, double relative_error);

struct Precision {
  double relative_error = 0.03;
  std::int32_t minimum = 5;
  std::int32_t maximum = 60;
};

inline constexpr double kClockTolerance = 0.02;  // of the median clock
inline constexpr int kWarmUps = 3;

// The clocks at which a measurement was made.
struct Conditions {
  std::uint32_t median_sm_mhz = 0;  // 0: the driver does not say
  std::uint32_t median_power_milliwatts = 0;
  std::uint64_t throttle_reasons = 0;  // of all readings together
  std::size_t dropped = 0;             // repetitions off the median clock by more than kClockTolerance
};

struct Repeated {
  std::vector<std::vector<double>> columns;  // one for each number of a measurement; dropped repetitions left out
  Conditions conditions;
};

using Measurement = std::vector<double>;

// Which readings lie within kClockTolerance of their median clock; all, where clocks are not known.
[[nodiscard]] std::vector<bool> steady(std::span<const ClockReading> readings);
[[nodiscard]] Conditions conditions_of(std::span<const ClockReading> readings);

// `measure` gives the same number of positive numbers each time, after kWarmUps calls that do not count. Fails where it
// fails, and where the clock wanders so much that too few repetitions remain.
[[nodiscard]] Result<Repeated> repeat(const std::function<Result<Measurement>()>& measure, const Precision& precision,
                                      Device& device, Ranks& ranks);

}  // namespace trimtab::bench
