#include "tuning/trial/racing.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kUnknown = 1e9;
constexpr double kLittleHope = 0.1;      // chance below which a trial is given up
constexpr double kPriorDegrees = 2.0;    // weight of what the steps inside of blocks say, until pairs say more
constexpr double kPriorInflation = 2.0;  // of variance: blocks share what single steps do not
constexpr int kMostNewtonSteps = 60;
constexpr double kExact = 1e-9;  // of a quantile
constexpr double kPi = 3.14159265358979323846;

double student_density(double t, double degrees) {
  const double scale = std::exp(std::lgamma((degrees + 1) / 2) - std::lgamma(degrees / 2)) / std::sqrt(kPi * degrees);
  return scale * std::pow(1 + t * t / degrees, -(degrees + 1) / 2);
}

// The regularized incomplete beta function where its continued fraction converges fast (modified Lentz).
double beta_below(double a, double b, double x) {
  constexpr int kMostTerms = 1000;
  const double logarithm = std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  double above = 1;
  double below = 1 / (1 - (a + b) * x / (a + 1));
  double value = below;
  for (int m = 1; m <= kMostTerms; ++m) {
    double moved = 1;
    for (const double term : {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                              -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))}) {
      below = 1 / (1 + term * below);
      above = 1 + term / above;
      moved *= above * below;
    }
    value *= moved;
    if (std::abs(moved - 1) < 1e-15) break;
  }
  return std::exp(logarithm) * value / a;
}

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  return x < (a + 1) / (a + b + 2) ? beta_below(a, b, x) : 1 - beta_below(b, a, 1 - x);
}

// The variance of one difference, as the steps inside of the blocks say. REQUIRES: one pair at least that has steps on
// both sides.
double within_blocks(const Blocks& first, const Blocks& second) {
  double sum = 0;
  int pairs = 0;
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (first[i].empty() || second[i].empty()) continue;
    sum += log_center(first[i]).error_squared + log_center(second[i]).error_squared;
    ++pairs;
  }
  return sum / pairs;
}

// The job's noise and the pairs' own together, and a little of what the steps inside of blocks say.
Spread spread_of_race(const Scatter& own, const PairNoise& noise, double within) {
  const PairNoise known{noise.squares + kPriorDegrees * kPriorInflation * within, noise.degrees + kPriorDegrees};
  Spread spread = spread_of(own, known);
  spread.variance = std::max({spread.variance, within, 1e-18});
  return spread;
}

// The number of pairs at the first look after that of `pairs`.
int next_look(int pairs) {
  return pairs < 4 ? pairs + 1 : (3 * pairs + 1) / 2;
}

bool is_look(int pairs, int most) {
  int at = 1;
  while (at < pairs) at = next_look(at);
  return at == pairs || pairs >= most;
}

RaceState verdict(double lower, double upper, double hope, double incumbent_ms, const RaceRules& rules, int pairs) {
  if (!is_look(pairs, rules.pairs)) return RaceState::kOpen;
  const Ratio surely{std::exp(lower), std::exp(lower), std::exp(upper)};
  const bool repeated = pairs >= std::min(kLeastPairs, rules.pairs);
  if (repeated && worth_adopting(surely, incumbent_ms, rules.switch_ms, rules.remaining_steps))
    return RaceState::kFaster;
  const double wanted = -std::log(1 - rules.minimum_gain);
  if (upper < wanted) return RaceState::kSlower;
  if (pairs >= rules.pairs) return RaceState::kUnsure;
  return pairs >= 2 && hope < wanted ? RaceState::kHopeless : RaceState::kOpen;
}

}  // namespace

int looks_of(int pairs) {
  int looks = 1;
  for (int at = 1; at < pairs; at = next_look(at)) ++looks;
  return looks;
}

double student_share(double t, double degrees) {
  return 0.5 + incomplete_beta(0.5, degrees / 2, t * t / (degrees + t * t)) / 2;
}

double student_quantile(double share, double degrees) {
  TRIMTAB_ASSERT(share >= 0.5 && share < 1 && degrees > 0, "a quantile of the upper half");
  double low = 0;
  double high = 1;
  while (student_share(high, degrees) < share && high < kUnknown) high *= 2;
  double at = (low + high) / 2;
  for (int i = 0; i < kMostNewtonSteps && high - low > kExact * high; ++i) {
    const double off = student_share(at, degrees) - share;
    (off < 0 ? low : high) = at;
    const double next = at - off / student_density(at, degrees);
    const double step = std::abs(next - at);
    at = next > low && next < high ? next : (low + high) / 2;
    if (step < kExact * at) break;
  }
  return at;
}

Race look(const Blocks& first, const Blocks& second, const PairNoise& noise, const RaceRules& rules) {
  const Scatter pairs(pair_differences(first, second));
  Race race;
  if (pairs.count == 0) return race;
  const Spread spread = spread_of_race(pairs, noise, within_blocks(first, second));
  const double error = std::sqrt(spread.variance / pairs.count);
  const double reach = student_quantile(1 - kErrorRate / looks_of(rules.pairs), spread.degrees) * error;
  const double hope = pairs.mean + student_quantile(1 - kLittleHope, spread.degrees) * error;
  race.ratio = {std::exp(pairs.mean), std::exp(pairs.mean - reach), std::exp(pairs.mean + reach)};
  const double incumbent_ms = std::exp(log_center(first).mean);
  race.state = verdict(pairs.mean - reach, pairs.mean + reach, hope, incumbent_ms, rules, pairs.count);
  return race;
}

long break_even_steps(const Ratio& ratio, double incumbent_ms, double switch_ms) {
  if (ratio.low <= 1.0 || incumbent_ms <= 0) return 0;
  const double saved_per_step_ms = incumbent_ms * (1 - 1 / ratio.low);
  return std::max(1L, static_cast<long>(std::min(std::ceil(switch_ms / saved_per_step_ms), kUnknown)));
}

}  // namespace trimtab::coordinator
