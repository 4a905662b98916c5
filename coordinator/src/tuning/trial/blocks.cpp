#include "tuning/trial/blocks.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kTrim = 0.2;
constexpr double kMostDegrees = 24;  // of what earlier measurements teach
constexpr double kSuspicious = 3.0;  // own variance over the known one: the known one is not believed

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

void PairNoise::add(double more_squares, double more_degrees) {
  squares += more_squares;
  degrees += more_degrees;
  if (degrees <= kMostDegrees) return;
  squares *= kMostDegrees / degrees;
  degrees = kMostDegrees;
}

// Neighbours that share no block, so that differences are independent.
void PairNoise::learn_from_one_plan(const Blocks& blocks) {
  for (std::size_t i = 0; i + 1 < blocks.size(); i += 2) {
    if (blocks[i].empty() || blocks[i + 1].empty()) continue;
    const double difference = log_center(blocks[i]).mean - log_center(blocks[i + 1]).mean;
    add(difference * difference, 1);
  }
}

void PairNoise::learn_from_pairs(const Blocks& first, const Blocks& second) {
  const Scatter pairs(pair_differences(first, second));
  if (pairs.count >= 2) add(pairs.squares, pairs.degrees());
}

Scatter::Scatter(const std::vector<double>& values) : count(static_cast<int>(values.size())) {
  for (const double value : values) mean += value / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
}

std::vector<double> pair_differences(const Blocks& first, const Blocks& second) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (first[i].empty() || second[i].empty()) continue;
    differences.push_back(log_center(first[i]).mean - log_center(second[i]).mean);
  }
  return differences;
}

Spread spread_of(const Scatter& own, const PairNoise& known) {
  const double degrees = own.degrees() + known.degrees;
  if (degrees <= 0) return {};
  const bool is_other = own.degrees() >= 2 && known.degrees > 0 &&
                        own.squares / own.degrees() > kSuspicious * known.squares / known.degrees;
  if (is_other) return {own.squares / own.degrees(), own.degrees()};
  return {(own.squares + known.squares) / degrees, degrees};
}

}  // namespace trimtab::coordinator
