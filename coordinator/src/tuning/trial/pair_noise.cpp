#include "tuning/trial/pair_noise.hpp"

#include <algorithm>
#include <cstddef>

namespace trimtab::coordinator {
namespace {

constexpr double kMostDegrees = 24;  // of what earlier measurements teach
constexpr double kSuspicious = 3.0;  // own variance over the known one: the known one is not believed

}  // namespace

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
