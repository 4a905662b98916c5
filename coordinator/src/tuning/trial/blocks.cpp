#include "tuning/trial/blocks.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kTrim = 0.2;

std::vector<double> sorted_logs(std::vector<double> values) {
  for (double& value : values) value = std::log(std::max(value, 1e-9));
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

LogCenter log_center(const std::vector<double>& steps_ms) {
  TRIMTAB_ASSERT(!steps_ms.empty(), "a trimmed mean needs a value");
  const std::vector<double> values = sorted_logs(steps_ms);
  const std::size_t n = values.size();
  const auto cut = static_cast<std::size_t>(kTrim * static_cast<double>(n));
  const std::size_t kept = n - 2 * cut;
  LogCenter result;
  for (std::size_t i = cut; i < n - cut; ++i) result.mean += values[i];
  result.mean /= static_cast<double>(kept);
  if (kept < 2) return result;
  double winsorised_mean = 0;
  for (std::size_t i = 0; i < n; ++i) winsorised_mean += values[std::clamp(i, cut, n - cut - 1)];
  winsorised_mean /= static_cast<double>(n);
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double off = values[std::clamp(i, cut, n - cut - 1)] - winsorised_mean;
    squares += off * off;
  }
  const auto h = static_cast<double>(kept);
  result.error_squared = squares / (h * (h - 1));
  result.degrees = h - 1;
  return result;
}

LogCenter log_center(const Blocks& blocks) {
  std::vector<double> all;
  for (const auto& block : blocks) all.insert(all.end(), block.begin(), block.end());
  return log_center(all);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace trimtab::coordinator
