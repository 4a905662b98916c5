#include "tuning/racing.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kMostDegrees = 24;  // of what earlier measurements teach
constexpr double kUnknown = 1e9;
constexpr double kLittleHope = 0.1;      // chance below which a trial is given up
constexpr double kSuspicious = 3.0;      // own variance over the job's: the job's is not believed
constexpr double kPriorDegrees = 2.0;    // weight of what the steps inside of blocks say, until pairs say more
constexpr double kPriorInflation = 2.0;  // of variance: blocks share what single steps do not
constexpr int kLeastPairs = 2;           // for an adoption: one block may have met a disturbance from end to end
constexpr int kMostNewtonSteps = 60;
constexpr double kExact = 1e-9;  // of a quantile
constexpr double kPi = 3.14159265358979323846;

// The share of Student's t below `t` >= 0, by Simpson's rule over the angle whose tangent is t / sqrt(degrees): the
// integrand is a power of a cosine.
double student_share(double t, double degrees) {
  constexpr int kSlices = 400;
  const double end = std::atan(t / std::sqrt(degrees));
  const double width = end / kSlices;
  double sum = 0;
  for (int i = 0; i <= kSlices; ++i) {
    const int weight = i == 0 || i == kSlices ? 1 : (i % 2 == 1 ? 4 : 2);
    sum += weight * std::pow(std::cos(i * width), degrees - 1);
  }
  const double scale = std::exp(std::lgamma((degrees + 1) / 2) - std::lgamma(degrees / 2)) / std::sqrt(kPi);
  return 0.5 + scale * sum * width / 3;
}

double student_density(double t, double degrees) {
  const double scale = std::exp(std::lgamma((degrees + 1) / 2) - std::lgamma(degrees / 2)) / std::sqrt(kPi * degrees);
  return scale * std::pow(1 + t * t / degrees, -(degrees + 1) / 2);
}

struct Differences {
  std::vector<double> of_pair;
  double within = 0;  // variance of one difference, as the steps inside of the blocks say

  [[nodiscard]] double mean() const {
    double sum = 0;
    for (const double one : of_pair) sum += one;
    return sum / static_cast<double>(of_pair.size());
  }
  [[nodiscard]] double squares() const {
    const double center = mean();
    double sum = 0;
    for (const double one : of_pair) sum += (one - center) * (one - center);
    return sum;
  }
};

Differences differences(const Blocks& first, const Blocks& second) {
  Differences all;
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (first[i].empty() || second[i].empty()) continue;
    const LogCenter a = log_center(first[i]);
    const LogCenter b = log_center(second[i]);
    all.of_pair.push_back(a.mean - b.mean);
    all.within += a.error_squared + b.error_squared;
  }
  if (!all.of_pair.empty()) all.within /= static_cast<double>(all.of_pair.size());
  return all;
}

struct Spread {
  double variance = 0;  // of one difference
  double degrees = 0;
};

// The job's noise and the pairs' own together; the pairs' own alone where they say something else.
Spread spread_of(const Differences& own, const PairNoise& noise) {
  const double own_degrees = static_cast<double>(own.of_pair.size()) - 1;
  const double own_squares = own.squares();
  const double prior_squares = kPriorDegrees * kPriorInflation * own.within;
  const double known_degrees = noise.degrees + kPriorDegrees;
  const double known = (noise.squares + prior_squares) / known_degrees;
  Spread spread{(noise.squares + prior_squares + own_squares) / (known_degrees + own_degrees),
                known_degrees + own_degrees};
  if (own_degrees >= 2 && own_squares / own_degrees > kSuspicious * known) {
    spread = {own_squares / own_degrees, own_degrees};
  }
  spread.variance = std::max({spread.variance, own.within, 1e-18});
  return spread;
}

// The squared standard error of a measured time's logarithm.
double log_error_squared(const Measured& measured) {
  constexpr double kLeast = 0.005;  // where the interval says nothing
  const bool known = measured.low_ms > 0 && measured.high_ms > measured.low_ms;
  const double error = known ? std::log(measured.high_ms / measured.low_ms) / 3.92 : kLeast;
  return error * error;
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
  const Differences pairs = differences(first, second);
  if (pairs.of_pair.size() >= 2) add(pairs.squares(), static_cast<double>(pairs.of_pair.size()) - 1);
}

Ratio compare_apart(const Measured& first, const Measured& second, const PairNoise& noise) {
  if (first.mean_ms <= 0 || second.mean_ms <= 0) return {1, 0, kUnknown};
  const double within = log_error_squared(first) + log_error_squared(second);
  const double between = noise.degrees > 0 ? noise.squares / noise.degrees : 0;
  const double degrees = between > within ? noise.degrees : std::min(first.steps, second.steps) - 1.0;
  const double reach = student_t(degrees) * std::sqrt(std::max(within, between));
  const double difference = std::log(first.mean_ms / second.mean_ms);
  return {std::exp(difference), std::exp(difference - reach), std::exp(difference + reach)};
}

Race look(const Blocks& first, const Blocks& second, const PairNoise& noise, const RaceRules& rules) {
  const Differences pairs = differences(first, second);
  Race race;
  if (pairs.of_pair.empty()) return race;
  const auto count = static_cast<int>(pairs.of_pair.size());
  const Spread spread = spread_of(pairs, noise);
  const double mean = pairs.mean();
  const double error = std::sqrt(spread.variance / count);
  const double reach = student_quantile(1 - kErrorRate / looks_of(rules.pairs), spread.degrees) * error;
  const double hope = mean + student_quantile(1 - kLittleHope, spread.degrees) * error;
  race.ratio = {std::exp(mean), std::exp(mean - reach), std::exp(mean + reach)};
  race.state = verdict(mean - reach, mean + reach, hope, summarize(first).mean_ms, rules, count);
  return race;
}

long break_even_steps(const Ratio& ratio, double incumbent_ms, double switch_ms) {
  if (ratio.low <= 1.0 || incumbent_ms <= 0) return 0;
  const double saved_per_step_ms = incumbent_ms * (1 - 1 / ratio.low);
  return std::max(1L, static_cast<long>(std::min(std::ceil(switch_ms / saved_per_step_ms), kUnknown)));
}

}  // namespace trimtab::coordinator
