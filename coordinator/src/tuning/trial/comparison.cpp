#include "tuning/trial/comparison.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/numbers.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kLeastReach = 1e-9;
constexpr double kUntoldReach = 1.0;     // of a time's logarithm, when there is one step
constexpr double kPriorDegrees = 2.0;    // of what blocks scatter by, where none has shown it
constexpr double kPriorInflation = 2.0;  // of the variance that steps show
constexpr double kLeastError = 0.005;    // of a time's logarithm, where its interval says nothing
constexpr double kNormal = 1.96;

// 95 % to either side, as far as blocks say; `within` is what steps say of the variance of the mean.
double reach_of_blocks(const Scatter& own, const PairNoise& noise, double within) {
  const Spread spread = spread_of(own, noise);
  if (spread.degrees <= 0) return student_t(kPriorDegrees) * std::sqrt(kPriorInflation * within);
  return student_t(spread.degrees) * std::sqrt(spread.variance / std::max(own.count, 1));
}

// Welch's, of the difference of two means.
double degrees_of_steps(const LogCenter& a, const LogCenter& b) {
  const double within = a.error_squared + b.error_squared;
  if (within <= 0) return a.degrees + b.degrees;
  return within * within /
         (a.error_squared * a.error_squared / a.degrees + b.error_squared * b.error_squared / b.degrees);
}

std::vector<double> centers(const Blocks& blocks) {
  std::vector<double> all;
  for (const auto& block : blocks) {
    if (!block.empty()) all.push_back(log_center(block).mean);
  }
  return all;
}

// Half the interval of a measured time's logarithm.
double log_reach(const Measured& measured) {
  const bool known = measured.low_ms > 0 && measured.high_ms > measured.low_ms;
  return known ? std::log(measured.high_ms / measured.low_ms) / 2 : kNormal * kLeastError;
}

Ratio ratio_of(double difference, double reach) {
  return {std::exp(difference), std::exp(difference - reach), std::exp(difference + reach)};
}

}  // namespace

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

Measured summarize(const Blocks& blocks, const PairNoise& noise) {
  const LogCenter center = log_center(blocks);
  double reach = kUntoldReach;
  if (center.degrees > 0) {
    const double of_steps = student_t(center.degrees) * std::sqrt(center.error_squared);
    const double of_blocks = reach_of_blocks(Scatter(centers(blocks)), noise.of_one_block(), center.error_squared);
    reach = std::max(of_steps, of_blocks);
  }
  std::size_t steps = 0;
  for (const auto& block : blocks) steps += block.size();
  return {std::exp(center.mean), std::exp(center.mean - reach), std::exp(center.mean + reach), static_cast<int>(steps)};
}

Ratio compare(const Blocks& first, const Blocks& second, const PairNoise& noise) {
  const LogCenter a = log_center(first);
  const LogCenter b = log_center(second);
  const double difference = a.mean - b.mean;
  if (a.degrees <= 0 || b.degrees <= 0) return {std::exp(difference), 0, kUnknownRatio};
  const double within = a.error_squared + b.error_squared;
  const double of_steps = student_t(degrees_of_steps(a, b)) * std::sqrt(within);
  const double of_blocks = reach_of_blocks(Scatter(pair_differences(first, second)), noise, within);
  return ratio_of(difference, std::max({of_steps, of_blocks, kLeastReach}));
}

Ratio compare_apart(const Measured& first, const Measured& second, const PairNoise& noise) {
  if (first.mean_ms <= 0 || second.mean_ms <= 0) return {1, 0, kUnknownRatio};
  const double own = root_of_squares(log_reach(first), log_reach(second));
  const double between = noise.degrees > 0 ? student_t(noise.degrees) * std::sqrt(noise.squares / noise.degrees) : 0;
  return ratio_of(std::log(first.mean_ms / second.mean_ms), std::max(own, between));
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
