#include "repetition.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.hpp"

namespace trimtab::bench {

namespace {

constexpr int kResamples = 2000;

// Two-sided 95 % points of Student's t by degrees of freedom, from 1; beyond the last the normal distribution's.
constexpr std::array kStudent{12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
                              2.12,  2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05};

double median_clock(std::span<const ClockReading> readings) {
  std::vector<double> clocks;
  for (const ClockReading& reading : readings) {
    if (reading.sm_mhz > 0) clocks.push_back(reading.sm_mhz);
  }
  return clocks.empty() ? 0 : median(std::move(clocks));
}

struct Rows {
  std::vector<Measurement> measurements;
  std::vector<ClockReading> readings;

  [[nodiscard]] std::vector<std::vector<double>> kept_columns() const {
    std::vector<std::vector<double>> columns(measurements.front().size());
    const std::vector<bool> keep = steady(readings);
    for (std::size_t row = 0; row < measurements.size(); ++row) {
      if (!keep[row]) continue;
      for (std::size_t i = 0; i < columns.size(); ++i) columns[i].push_back(measurements[row][i]);
    }
    return columns;
  }
};

bool enough(const std::vector<std::vector<double>>& columns, const Precision& precision) {
  return std::all_of(columns.begin(), columns.end(), [&](const std::vector<double>& column) {
    return column.size() >= static_cast<std::size_t>(precision.minimum) &&
           precise_enough(column, precision.relative_error);
  });
}

Error unsteady(const Rows& rows, std::size_t kept, const Precision& precision) {
  return unavailable("the GPU's clock is not steady: only " + std::to_string(kept) + " of " +
                     std::to_string(rows.readings.size()) + " repetitions were within 2 % of its median, " +
                     std::to_string(std::lround(median_clock(rows.readings))) + " MHz, and " +
                     std::to_string(precision.minimum) +
                     " are needed; see what throttles it (nvidia-smi -q -d PERFORMANCE)");
}

}  // namespace

double median(std::vector<double> values) {
  TRIMTAB_ASSERT(!values.empty(), "a median needs a value");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

Estimate bootstrap_median(std::span<const double> values, Random& random) {
  Estimate estimate{median({values.begin(), values.end()}), 0, 0, values.size()};
  std::vector<double> medians;
  std::vector<double> resample(values.size());
  for (int i = 0; i < kResamples; ++i) {
    for (double& value : resample) value = values[random.below(values.size())];
    medians.push_back(median(resample));
  }
  std::sort(medians.begin(), medians.end());
  estimate.low = medians[kResamples / 40];
  estimate.high = medians[kResamples - 1 - kResamples / 40];
  return estimate;
}

bool precise_enough(std::span<const double> values, double relative_error) {
  if (values.size() < 2) return false;
  const auto count = static_cast<double>(values.size());
  double mean = 0;
  for (const double value : values) mean += value / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / (count - 1));
  const std::size_t freedom = values.size() - 1;
  const double student = freedom <= kStudent.size() ? kStudent[freedom - 1] : 1.96;
  return student * deviation / std::sqrt(count) <= relative_error * std::abs(mean);
}

std::vector<bool> steady(std::span<const ClockReading> readings) {
  const double middle = median_clock(readings);
  std::vector<bool> keep;
  for (const ClockReading& reading : readings) {
    keep.push_back(middle == 0 || std::abs(reading.sm_mhz - middle) <= kClockTolerance * middle);
  }
  return keep;
}

Conditions conditions_of(std::span<const ClockReading> readings) {
  Conditions conditions;
  conditions.median_sm_mhz = static_cast<std::uint32_t>(std::lround(median_clock(readings)));
  std::vector<double> power;
  for (const ClockReading& reading : readings) {
    power.push_back(reading.power_milliwatts);
    conditions.throttle_reasons |= reading.throttle_reasons;
  }
  if (!power.empty()) conditions.median_power_milliwatts = static_cast<std::uint32_t>(std::lround(median(power)));
  const std::vector<bool> keep = steady(readings);
  conditions.dropped = static_cast<std::size_t>(std::count(keep.begin(), keep.end(), false));
  return conditions;
}

Result<Repeated> repeat(const std::function<Result<Measurement>()>& measure, const Precision& precision, Device& device,
                        Ranks& ranks) {
  for (int i = 0; i < kWarmUps; ++i) {
    TRIMTAB_TRY([[maybe_unused]] const Measurement warm_up, measure());
  }
  Rows rows;
  for (;;) {
    TRIMTAB_TRY(Measurement measurement, measure());
    TRIMTAB_ASSERT(!measurement.empty(), "a measurement is at least one number");
    rows.measurements.push_back(std::move(measurement));
    rows.readings.push_back(device.clocks());
    auto columns = rows.kept_columns();
    TRIMTAB_TRY(const bool done, ranks.all(enough(columns, precision)));
    if (!done && rows.readings.size() < static_cast<std::size_t>(precision.maximum)) continue;
    const std::size_t kept = columns.front().size();
    if (kept < static_cast<std::size_t>(precision.minimum)) return unsteady(rows, kept, precision);
    return Repeated{std::move(columns), conditions_of(rows.readings)};
  }
}

}  // namespace trimtab::bench
