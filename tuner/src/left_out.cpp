#include "left_out.hpp"

#include <cmath>
#include <cstddef>
#include <numeric>

#include "base/check.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kNoiseWeight = 4;  // measurements that the noise counts for
constexpr double kChance = 1.645;   // standard errors: 5 %, one-sided

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
  const double variance = squares / (kNoiseWeight + count - 1);
  return fall > kChance * std::sqrt(variance / count);
}

}  // namespace trimtab::tuner
