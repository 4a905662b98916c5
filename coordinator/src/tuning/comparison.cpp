#include "tuning/comparison.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/check.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kTrim = 0.2;
constexpr double kUnknown = 1e9;

std::vector<double> pooled(const Blocks& blocks) {
  std::vector<double> values;
  for (const auto& block : blocks) values.insert(values.end(), block.begin(), block.end());
  return values;
}

std::vector<double> logs(std::vector<double> values) {
  for (double& value : values) value = std::log(std::max(value, 1e-9));
  return values;
}

// A trimmed mean and the square of its standard error.
struct Trimmed {
  double mean = 0;
  double error_squared = 0;
  double degrees = 0;  // 0 = the error is unknown
};

Trimmed trimmed(std::vector<double> values) {
  TRIMTAB_ASSERT(!values.empty(), "a trimmed mean needs a value");
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const auto cut = static_cast<std::size_t>(kTrim * static_cast<double>(n));
  const std::size_t kept = n - 2 * cut;
  Trimmed result;
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

// The variance of the mean of the block differences; 0 with fewer than two pairs of blocks.
double between_blocks(const Blocks& first, const Blocks& second) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (first[i].empty() || second[i].empty()) continue;
    differences.push_back(trimmed(logs(first[i])).mean - trimmed(logs(second[i])).mean);
  }
  if (differences.size() < 2) return 0;
  const auto n = static_cast<double>(differences.size());
  double mean = 0;
  for (const double d : differences) mean += d / n;
  double squares = 0;
  for (const double d : differences) squares += (d - mean) * (d - mean);
  return squares / (n - 1) / n;
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double student_t(double degrees_of_freedom) {
  static constexpr std::array<std::pair<double, double>, 16> kTable = {{{1, 12.706},
                                                                        {2, 4.303},
                                                                        {3, 3.182},
                                                                        {4, 2.776},
                                                                        {5, 2.571},
                                                                        {6, 2.447},
                                                                        {7, 2.365},
                                                                        {8, 2.306},
                                                                        {9, 2.262},
                                                                        {10, 2.228},
                                                                        {12, 2.179},
                                                                        {15, 2.131},
                                                                        {20, 2.086},
                                                                        {30, 2.042},
                                                                        {60, 2.000},
                                                                        {1e9, 1.960}}};
  if (degrees_of_freedom <= 1) return kTable.front().second;
  // The quantile is close to linear in 1/df between neighbours.
  for (std::size_t i = 1; i < kTable.size(); ++i) {
    if (degrees_of_freedom > kTable[i].first) continue;
    const double below = 1 / kTable[i - 1].first;
    const double above = 1 / kTable[i].first;
    const double share = (below - 1 / degrees_of_freedom) / (below - above);
    return kTable[i - 1].second + share * (kTable[i].second - kTable[i - 1].second);
  }
  return kTable.back().second;
}

LogCenter log_center(const std::vector<double>& steps_ms) {
  const Trimmed center = trimmed(logs(steps_ms));
  return {center.mean, center.error_squared};
}

Measured summarize(const Blocks& blocks) {
  const std::vector<double> values = pooled(blocks);
  const Trimmed center = trimmed(logs(values));
  const double mean = std::exp(center.mean);
  const double reach = center.degrees > 0 ? student_t(center.degrees) * std::sqrt(center.error_squared) : 1.0;
  return {mean, std::exp(center.mean - reach), std::exp(center.mean + reach), static_cast<int>(values.size())};
}

Ratio compare(const Blocks& first, const Blocks& second) {
  const Trimmed a = trimmed(logs(pooled(first)));
  const Trimmed b = trimmed(logs(pooled(second)));
  const double difference = a.mean - b.mean;
  if (a.degrees <= 0 || b.degrees <= 0) return {std::exp(difference), 0, kUnknown};
  const double within = a.error_squared + b.error_squared;
  const double error_squared = std::max({within, between_blocks(first, second), 1e-18});
  double degrees = a.degrees + b.degrees;
  if (within > 0) {
    degrees = within * within /
              (a.error_squared * a.error_squared / a.degrees + b.error_squared * b.error_squared / b.degrees);
  }
  const double reach = student_t(degrees) * std::sqrt(error_squared);
  return {std::exp(difference), std::exp(difference - reach), std::exp(difference + reach)};
}

bool surely_worse(const std::vector<double>& incumbent, const std::vector<double>& candidate) {
  if (incumbent.empty() || candidate.size() < 3) return false;
  const double reference = median(incumbent);
  const bool none_as_fast = *std::min_element(candidate.begin(), candidate.end()) > reference;
  return none_as_fast && median(candidate) > 1.3 * reference;
}

bool worth_adopting(const Ratio& ratio, double incumbent_ms, double switch_ms, long remaining_steps) {
  if (ratio.low <= 1.0) return false;
  const double saved_per_step_ms = incumbent_ms * (1 - 1 / ratio.low);
  return saved_per_step_ms * static_cast<double>(std::max(remaining_steps, 0L)) > switch_ms;
}

}  // namespace trimtab::coordinator
