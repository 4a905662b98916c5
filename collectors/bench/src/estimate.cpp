#include "estimate.hpp"

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

}  // namespace trimtab::bench
