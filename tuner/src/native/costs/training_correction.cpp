#include "native/costs/training_correction.hpp"

#include <algorithm>
#include <cmath>

#include "base/numbers.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kClear = 4;  // standard deviations by which what noise explains must be exceeded
constexpr double kOfOneValue = 0.05;

struct Ratio {
  double log = 0;
  double sigma = 0;
  CostKey taught_by;
  bool disturbed = false;  // the benchmark
  double weight = 0;       // of 0 ... 1: how much of it is not noise
};

double relative_error(const ChosenCost& cost) {
  const Statistics& values = cost.statistics;
  if (values.mean() <= 0) return 0;
  // Of a median, of normal values.
  const double error = values.count() > 1 ? 1.2533 * values.standard_error() / values.mean() : kOfOneValue;
  const double seen = std::max(std::isfinite(error) ? error : kOfOneValue, cost.source.disturbed ? kOfDisturbed : 0.0);
  return root_of_squares(seen, cost.log_sigma);
}

double log_distance(std::int64_t a, std::int64_t b) {
  return std::fabs(
      std::log(static_cast<double>(std::max<std::int64_t>(a, 1)) / static_cast<double>(std::max<std::int64_t>(b, 1))));
}

double corrected_level(const ChosenCost& cost) {
  return level_of(cost) * cost.factor;
}

// The benchmark's level at a size, between its points linear; within a rounding beyond them in proportion.
std::optional<std::pair<double, const ChosenCost*>> benchmark_at(const std::map<std::int64_t, ChosenCost>& points,
                                                                 std::int64_t size) {
  if (points.empty()) return std::nullopt;
  const auto above = points.lower_bound(size);
  if (above != points.end() && above->first == size) return std::pair(corrected_level(above->second), &above->second);
  if (above == points.begin() || above == points.end()) {
    const auto& [edge, cost] = above == points.begin() ? *points.begin() : *points.rbegin();
    if (edge <= 0 || log_distance(edge, size) > std::log(kRounding)) return std::nullopt;
    return std::pair(corrected_level(cost) * static_cast<double>(size) / static_cast<double>(edge), &cost);
  }
  const auto below = std::prev(above);
  const double share = static_cast<double>(size - below->first) / static_cast<double>(above->first - below->first);
  const double low = corrected_level(below->second);
  const double high = corrected_level(above->second);
  return std::pair(low + share * (high - low), share < 0.5 ? &below->second : &above->second);
}

std::map<std::int64_t, Ratio> ratios(const Evidence& evidence) {
  std::map<std::int64_t, Ratio> all;
  for (const auto& [size, seen] : evidence.training) {
    const auto at = benchmark_at(evidence.benchmark, size);
    const double level = level_of(seen);
    if (!at || at->first <= 0 || level <= 0) continue;
    Ratio ratio{std::log(level / at->first), 0, seen.key};
    ratio.sigma = std::hypot(relative_error(seen), relative_error(*at->second), kSystematic);
    ratio.disturbed = at->second->source.disturbed;
    all.emplace(size, ratio);
  }
  return all;
}

const std::pair<const std::int64_t, Ratio>* nearest(const std::map<std::int64_t, Ratio>& of, std::int64_t size) {
  const auto best = std::ranges::min_element(
      of, [size](const auto& a, const auto& b) { return log_distance(a.first, size) < log_distance(b.first, size); });
  return best == of.end() ? nullptr : &*best;
}

void correct(ChosenCost cost, const Ratio& ratio, double more_sigma, std::vector<ChosenCost>& into) {
  const double left = (1 - ratio.weight) * cost.log_sigma;  // of the doubt about what is taken over
  cost.factor *= std::exp(ratio.weight * ratio.log);
  cost.log_sigma = root_of_squares(std::sqrt(ratio.weight) * ratio.sigma, root_of_squares(more_sigma, left));
  cost.corrected_by = ratio.taught_by;
  into.push_back(std::move(cost));
}

// The logarithm of what crosses links at another size over the benchmark's `level`, of the nearest size's: no more is
// taken to be wrong than was seen to be. Above, the same difference: the start-up may be all that is wrong. Below, the
// difference in proportion to the size: the rate may be.
double beyond(const Evidence& evidence, const std::pair<const std::int64_t, Ratio>& seen, std::int64_t size,
              double level) {
  const double whole = seen.second.weight * seen.second.log;
  const auto at = benchmark_at(evidence.benchmark, seen.first);
  const double shrunk = std::min(1.0, static_cast<double>(size) / static_cast<double>(seen.first));
  const double times = 1 + shrunk * (at ? at->first : 0) * std::expm1(whole) / level;
  const auto [least, most] = std::minmax({0.0, whole});
  return std::clamp(std::log(std::max(times, std::exp(least))), least, most);
}

// Start-up and rate may be wrong, each for itself. The truth is then a straight line of the benchmark's times. So what
// it exceeds a time by, over that time, is a straight line of 1 / time: least squares of what was seen.
class TwoCauses {
 public:
  TwoCauses(const Evidence& evidence, const std::map<std::int64_t, Ratio>& taken) {
    double excesses = 0;  // of squares, by weight
    for (const auto& [size, ratio] : taken) {
      const auto at = benchmark_at(evidence.benchmark, size);
      const double excess = std::expm1(ratio.weight * ratio.log);
      const double weight = std::pow(ratio.sigma * (1 + excess), -2);
      const double share = weight / (weights_ += weight);
      const double u = 1 / at->first - u_;
      const double off = excess - excess_;
      u_ += share * u;
      excess_ += share * off;
      squares_ += weight * (1 - share) * u * u;
      slope_ += weight * (1 - share) * u * off;
      excesses += weight * (1 - share) * off * off;
      usual_ += excess * excess / static_cast<double>(taken.size());
    }
    slope_ /= squares_;
    const double freedom = static_cast<double>(taken.size()) - 2;
    if (freedom > 0) wider_ = std::max(1.0, (excesses - slope_ * slope_ * squares_) / freedom);
  }

  // At another size the nearest to `log` that they leave open by a standard error, and that error. Nothing but `log`
  // where that error is no less than what times are off by as a rule: of one size, or of some that are near each other.
  [[nodiscard]] std::pair<double, double> nearest(double log, double level) const {
    const double u = 1 / level - u_;
    const double error = std::sqrt(wider_ * (1 / weights_ + u * u / squares_));
    if (!(error * error < usual_)) return {log, kOpen};  // nor where it is no number
    const double said = 1 + excess_ + slope_ * u;
    const double least = std::log(std::max(0.0, said - error));
    const double taken = std::clamp(log, least, std::log(std::max(kLeastLeft, said + error)));
    return {taken, error / std::exp(taken)};
  }

 private:
  static constexpr double kOpen = 1e9;
  static constexpr double kLeastLeft = 0.1;  // of a time
  double weights_ = 0;
  double u_ = 0;  // weighted means
  double excess_ = 0;
  double squares_ = 0;  // of u about its mean
  double slope_ = 0;
  double usual_ = 0;  // mean square of excesses
  double wider_ = 1;  // the variance, where three sizes or more lie on no line
};

// What crosses links starts up, and then runs at a rate: a benchmark may be wrong of either, or of both.
void correct_links(const Evidence& evidence, const std::map<std::int64_t, Ratio>& taken,
                   std::vector<ChosenCost>& into) {
  const TwoCauses causes(evidence, taken);
  for (const auto& [size, cost] : evidence.benchmark) {
    const double level = corrected_level(cost);
    if (taken.contains(size) || level <= 0) continue;
    const auto& near = *nearest(taken, size);
    const auto above = taken.upper_bound(size);
    double one = 0;  // as if one cause alone were wrong
    if (above == taken.begin() || above == taken.end()) {
      one = beyond(evidence, near, size, level);
    } else {
      const auto below = std::prev(above);
      const double share = log_distance(below->first, size) / log_distance(below->first, above->first);
      one = (1 - share) * below->second.weight * below->second.log + share * above->second.weight * above->second.log;
    }
    const auto [log, error] = causes.nearest(one, level);
    Ratio here = near.second;
    here.log = log / here.weight;
    const double far = kPerDoubling * log_distance(near.first, size) / std::log(2.0);
    const double open = std::min(std::fabs(here.weight * near.second.log - log) / 2, error);
    correct(cost, here, root_of_squares(far, open), into);
  }
}

// One thing of which both have measured something.
void correct_curve(bool passes, const Evidence& evidence, const std::map<std::int64_t, Ratio>& known,
                   std::vector<ChosenCost>& into) {
  for (const auto& [size, ratio] : known) {
    if (ratio.weight > 0) into.push_back(evidence.training.at(size));
  }
  if (!passes) {
    std::map<std::int64_t, Ratio> taken = known;
    std::erase_if(taken, [](const auto& one) { return one.second.weight == 0; });
    if (!taken.empty()) correct_links(evidence, taken, into);
    return;
  }
  for (const auto& [size, cost] : evidence.benchmark) {
    const auto* const near = nearest(known, size);
    if (near == nullptr || near->second.weight == 0 || near->first == size) continue;
    correct(cost, near->second, kPerDoubling * log_distance(near->first, size) / std::log(2.0), into);
  }
}

bool is_clear(double chi, double count) {
  return count > 0 && chi > count + kClear * std::sqrt(2 * count);
}

// Of what crosses links: sizes that training alone saw, where the benchmark's line between its sizes says the same.
void leave_out(const Evidence& evidence, const std::map<std::int64_t, Ratio>& known, std::vector<CostKey>& left_out) {
  for (const auto& [size, ratio] : known) {
    const double off = ratio.log / ratio.sigma;
    if (ratio.weight > 0 || evidence.benchmark.contains(size) || is_clear(off * off, 1)) continue;
    left_out.push_back(evidence.training.at(size).key);
  }
}

// Ratios of one kind of thing, which are wrong for the same reasons: how far true ratios spread about none, as far as
// it is more than their noise (empirical Bayes, after Efron and Morris 1975), and so how much of each is taken.
void weigh(const std::vector<Ratio*>& ratios) {
  double excess = 0;  // of r^2 over its noise
  double chi = 0;
  double count = 0;
  for (const Ratio* one : ratios) {
    if (one->disturbed) continue;
    excess += one->log * one->log - one->sigma * one->sigma;
    chi += one->log * one->log / (one->sigma * one->sigma);
    ++count;
  }
  const double spread = is_clear(chi, count) ? std::max(excess / count, 0.0) : 0;
  for (Ratio* one : ratios) {
    one->weight = one->disturbed ? 1 : spread / (spread + one->sigma * one->sigma);
  }
}

// What other degrees of the same pass have taught.
std::optional<Ratio> of_other_degrees(const std::vector<const Ratio*>& all) {
  double weights = 0;
  double sum = 0;
  for (const Ratio* one : all) {
    if (one->weight == 0) continue;
    const double weight = 1 / (one->sigma * one->sigma);
    weights += weight;
    sum += weight * one->weight * one->log;
  }
  if (weights <= 0) return std::nullopt;
  double spread = 0;
  for (const Ratio* one : all) spread = std::max(spread, std::fabs(one->weight * one->log - sum / weights));
  Ratio mean{sum / weights, std::hypot(std::sqrt(1 / weights), spread, kOtherDegree), all.front()->taught_by};
  mean.weight = mean.log * mean.log / (mean.log * mean.log + mean.sigma * mean.sigma);
  return mean;
}

// An operator's pass, whatever its split.
CostKey pass_of(CostKey key) {
  key.tp = 1;
  key.sharding = "default";
  return key;
}

}  // namespace

bool is_pass(CostKind kind) {
  return kind == CostKind::kOperatorForward || kind == CostKind::kOperatorBackward;
}

CurveKey curve_of(CostKey key) {
  key.samples = 0;
  key.bytes = 0;
  return key;
}

std::int64_t size_of(const CostKey& key) {
  return is_pass(key.kind) ? key.samples : key.bytes;
}

double level_of(const ChosenCost& cost) {
  const double median = cost.statistics.median();
  if (!is_pass(cost.key.kind) || cost.source.disturbed) return median;
  return std::clamp(cost.statistics.mean(), median * (1 - kSkew), median * (1 + kSkew));
}

Corrections corrected(const std::map<CurveKey, Evidence>& curves) {
  std::map<CurveKey, std::map<std::int64_t, Ratio>> known;
  std::map<bool, std::vector<Ratio*>> together;  // passes; what crosses links
  std::map<CostKey, std::vector<const Ratio*>> of_passes;
  for (const auto& [curve, evidence] : curves) {
    for (auto& [size, ratio] : known.emplace(curve, ratios(evidence)).first->second) {
      together[is_pass(curve.kind)].push_back(&ratio);
      if (is_pass(curve.kind)) of_passes[pass_of(curve)].push_back(&ratio);
    }
  }
  for (const auto& [passes, all] : together) weigh(all);
  Corrections result;
  for (const auto& [curve, evidence] : curves) {
    const std::map<std::int64_t, Ratio>& own = known.at(curve);
    correct_curve(is_pass(curve.kind), evidence, own, result.costs);
    if (!is_pass(curve.kind)) leave_out(evidence, own, result.left_out);
    if (!own.empty() || !is_pass(curve.kind) || evidence.benchmark.empty()) continue;
    const auto ratio = of_other_degrees(of_passes[pass_of(curve)]);
    if (!ratio) continue;
    for (const auto& [size, cost] : evidence.benchmark) correct(cost, *ratio, 0, result.costs);
  }
  return result;
}

}  // namespace trimtab::tuner
