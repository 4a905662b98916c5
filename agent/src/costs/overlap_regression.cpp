#include "costs/overlap_regression.hpp"

#include <algorithm>
#include <cmath>

namespace trimtab::agent {

namespace {

constexpr double kEnoughForOutliers = 8;
constexpr std::uint32_t kBaseHasChanged = 64;
constexpr double kHighestGamma = 0.95;  // a slowdown of 20
// A subject with thousands of others beside it is rare; the base is added to each of its pairs.
constexpr std::size_t kMostPairsOfSubject = 32;

}  // namespace

void OverlapRegression::Moments::add(double value) {
  count += 1;
  const double off = value - mean;
  mean += off / count;
  squares += off * (value - mean);
}

void OverlapRegression::alone(Subject subject, std::uint64_t duration_ns) {
  if (!subjects_.contains(subject) && subjects_.size() >= 4 * options_.max_pairs) {
    ++counters_.overflow;
    return;
  }
  SubjectState& state = subjects_[subject];
  const auto duration = static_cast<double>(duration_ns);
  if (state.base.count >= kEnoughForOutliers && duration > options_.outlier * state.base.mean) {
    ++counters_.outliers;
    if (++state.refused < kBaseHasChanged) return;
    state.base = {};
    for (Pair& pair : state.pairs) pair.block = {};
  }
  state.refused = 0;
  ++counters_.alone;
  // Old values fade, so that the base follows a clock that changed.
  if (state.base.count >= 256) state.base = {128, state.base.mean, state.base.squares / 2};
  state.base.add(duration);
  for (Pair& pair : state.pairs) {
    pair.block.alone.add(duration);
    close(pair);
  }
}

void OverlapRegression::beside(Subject subject, std::uint32_t cost, std::uint64_t duration_ns,
                               std::uint64_t beside_ns) {
  if (!subjects_.contains(subject) && subjects_.size() >= 4 * options_.max_pairs) {
    ++counters_.overflow;
    return;
  }
  SubjectState& state = subjects_[subject];
  const auto duration = static_cast<double>(duration_ns);
  if (state.base.count >= kEnoughForOutliers && duration > options_.outlier * state.base.mean) {
    ++counters_.outliers;
    return;
  }
  auto pair = std::ranges::find(state.pairs, cost, &Pair::cost);
  if (pair == state.pairs.end()) {
    if (pairs_ >= options_.max_pairs || state.pairs.size() >= kMostPairsOfSubject) {
      ++counters_.overflow;
      return;
    }
    ++pairs_;
    state.pairs.push_back({cost, {}});
    pair = std::prev(state.pairs.end());
  }
  ++counters_.beside;
  const auto o = static_cast<double>(beside_ns);
  Block& block = pair->block;
  block.count += 1;
  block.d += duration;
  block.o += o;
  block.dd += duration * duration;
  block.oo += o * o;
  block.od += o * duration;
  close(*pair);
}

void OverlapRegression::close(Pair& pair) {
  const Block& block = pair.block;
  const auto least = static_cast<double>(options_.block_least);
  if (block.count < std::max(least, pair.least_beside) || block.alone.count < std::max(least, pair.least_alone)) return;
  value(pair);
}

void OverlapRegression::value(Pair& pair) {
  Block& block = pair.block;
  const double n = block.count;
  const double base = block.alone.mean;
  const double gamma = (block.d - n * base) / block.o;
  // Sum of (d - base - gamma o)^2.
  const double residuals = block.dd + n * base * base + gamma * gamma * block.oo - 2 * base * block.d -
                           2 * gamma * block.od + 2 * base * gamma * block.o;
  const double variance =
      (std::max(0.0, residuals) * n / (n - 1) + n * n * block.alone.variance() / block.alone.count) /
      (block.o * block.o);
  const double excess = variance / (options_.block_error * options_.block_error);
  const bool pilot = pair.least_beside == 0;
  const bool endless = n + block.alone.count >= static_cast<double>(options_.block_most);
  if (pilot && excess > 1 && !endless) return;
  if (pilot && excess <= 1) {
    pair.least_beside = n;
    pair.least_alone = block.alone.count;
  } else if (pilot || gamma > kHighestGamma) {
    ++counters_.undecided;
  } else {
    // A longer occurrence has more beside it: the ratio's own bias, to first order (Cochran, Sampling Techniques, 6.8).
    const double together = block.od - base * block.o - gamma * block.oo;
    const double slowdown = 1 / (1 - gamma - together * n / (n - 1) / (block.o * block.o));
    values_[pair.cost].add(std::llround(std::max(0.0, slowdown * (1 - variance * slowdown * slowdown)) * 1e6));
    ++counters_.blocks;
    // What this block teaches is for the next.
    const double factor = std::clamp(std::sqrt(excess), 0.8, 1.5);
    const auto most = static_cast<double>(options_.block_most);
    pair.least_beside = std::min(most, pair.least_beside * factor);
    pair.least_alone = std::min(most, pair.least_alone * factor);
  }
  block = {};
}

void OverlapRegression::restart() {
  subjects_.clear();
  pairs_ = 0;
}

}  // namespace trimtab::agent
