#pragma once

// How sure a mean is, for tests of what was estimated.

#include <limits>

#include "schema/statistics.hpp"

namespace trimtab::agent {

// The 97.5 % quantile of Student's t.
inline double student_975(double degrees) {
  constexpr double kSmall[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  if (degrees < 1) return std::numeric_limits<double>::infinity();
  if (degrees <= 10) return kSmall[static_cast<std::size_t>(degrees) - 1];
  // Cornish and Fisher's expansion; within 0.002 from 10 degrees on.
  constexpr double z = 1.959964;
  const double z3 = z * z * z;
  const double z5 = z3 * z * z;
  return z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees);
}

struct Interval95 {
  double low = 0;
  double mean = 0;
  double high = 0;
};

// Of the mean, by Student's t; infinitely wide for one value. REQUIRES: !statistics.empty().
inline Interval95 interval_95(const Statistics& statistics) {
  const double mean = statistics.mean();
  if (statistics.count() < 2) {
    constexpr double kAny = std::numeric_limits<double>::infinity();
    return {-kAny, mean, kAny};
  }
  const double half = student_975(static_cast<double>(statistics.count()) - 1) * statistics.standard_error();
  return {mean - half, mean, mean + half};
}

}  // namespace trimtab::agent
