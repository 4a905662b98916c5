#pragma once

// Medians, and how sure they are. Pure.

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.hpp"

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

}  // namespace trimtab::bench
