#pragma once

// Where each of the parameters of time stands (tuner/calibration.hpp), and how far they make times differ. Pure.

#include <cstddef>

#include "tuner/calibration.hpp"

namespace trimtab::tuner {

inline constexpr std::size_t kComputation = 0;
inline constexpr std::size_t kCommunication = 1;
inline constexpr std::size_t kFixed = 2;  // the one that is no logarithm
inline constexpr std::size_t kOverlap = 3 + kCommunicationClasses;
inline constexpr std::size_t kBubble = kOverlap + 1;

[[nodiscard]] constexpr std::size_t place(std::size_t of_class) {
  return 3 + of_class;
}

// Of two times with these slopes: their covariance.
[[nodiscard]] inline double shared(const TimeSlopes& a, const TimeCovariance& covariance, const TimeSlopes& b) {
  double sum = 0;
  for (std::size_t i = 0; i < kTimeParameters; ++i) {
    for (std::size_t j = 0; j < kTimeParameters; ++j) sum += a[i] * covariance[i][j] * b[j];
  }
  return sum;
}

}  // namespace trimtab::tuner
