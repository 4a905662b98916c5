#include "native/calibration/left_out.hpp"

#include <cmath>
#include <cstddef>
#include <numeric>

#include "base/check.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kNoiseWeight = 4;  // measurements that the noise counts for

// Student's t of so many degrees of freedom that it exceeds in one case of twenty (Abramowitz and Stegun 1964, 26.7.5).
double exceeded_by_chance(double degrees) {
  constexpr double kNormal = 1.645;
  constexpr double kFirst = (kNormal * kNormal * kNormal + kNormal) / 4;
  constexpr double kSecond = 1.421;  // (5 z^5 + 16 z^3 + 3 z) / 96
  return kNormal + kFirst / degrees + kSecond / (degrees * degrees);
}

}  // namespace

double mean(const LeftOutErrors& errors) {
  if (errors.empty()) return 0;
  return std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
}

bool falls(const LeftOutErrors& before, const LeftOutErrors& after, double noise) {
  TRIMTAB_ASSERT(before.size() == after.size(), "errors of the same measurements");
  if (before.size() < 2) return false;
  const auto count = static_cast<double>(before.size());
  const double fall = mean(before) - mean(after);
  double squares = kNoiseWeight * noise * noise;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double off = before[i] - after[i] - fall;
    squares += off * off;
  }
  const double degrees = kNoiseWeight + count - 1;
  return fall > exceeded_by_chance(degrees) * std::sqrt(squares / degrees / count);
}

bool falls_by_far(double before, double after, double noise) {
  return before - after > exceeded_by_chance(kNoiseWeight) * noise;
}

}  // namespace trimtab::tuner
