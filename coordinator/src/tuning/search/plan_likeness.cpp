#include "tuning/search/plan_likeness.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace trimtab::coordinator {
namespace {

// What counts how much, of likeness.
constexpr double kSplit = 0.5;
constexpr double kStage = 0.3;
constexpr double kRecompute = 0.2;

struct Way {
  std::array<std::int32_t, 4> split{};  // samples per replica, dp, tp, sharded
  std::int32_t stage = -1;
  bool recomputed = false;
};

std::vector<Way> ways_of(const Plan& plan) {
  std::vector<Way> ways;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const Segment& segment : plan.stages[s].segments) {
      const std::array<std::int32_t, 4> split{plan.microbatch / std::max(segment.dp, 1), segment.dp, segment.tp,
                                              static_cast<std::int32_t>(segment.sharded)};
      for (std::int32_t i = segment.operators.begin; i < segment.operators.end; ++i) {
        const bool recomputed = std::any_of(segment.recompute.begin(), segment.recompute.end(),
                                            [i](const Range& range) { return range.contains(i); });
        ways.push_back({split, static_cast<std::int32_t>(s), recomputed});
      }
    }
  }
  return ways;
}

// How the logarithm of a plan's time follows from what calibration learns of time.
tuner::TimeSlopes slopes(const Prediction& of) {
  tuner::TimeSlopes all = tuner::time_slopes(of);
  for (double& slope : all) slope /= std::max(of.iteration_ms, 1e-9);
  return all;
}

}  // namespace

double likeness(const Plan& a, const Plan& b) {
  const std::vector<Way> first = ways_of(a);
  const std::vector<Way> second = ways_of(b);
  if (first.size() != second.size() || first.empty()) return 0;
  double alike = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const bool split = first[i].split == second[i].split;
    alike += split ? kSplit : 0;
    alike += split && first[i].stage == second[i].stage ? kStage : 0;
    alike += split && first[i].recomputed == second[i].recomputed ? kRecompute : 0;
  }
  return alike / static_cast<double>(first.size());
}

Residuals::Residuals(std::vector<Residual> known, tuner::Calibration calibration)
    : known_(std::move(known)), calibration_(std::move(calibration)), process_(process()) {}

GaussianProcess Residuals::process() const {
  std::vector<std::vector<double>> all;
  std::vector<double> noise;
  std::vector<double> values;
  for (const Residual& one : known_) {
    all.push_back(covariances(one.plan, one.prediction));
    noise.push_back(one.noise);
    values.push_back(one.log_ratio);
  }
  return {all, noise, std::move(values)};
}

double Residuals::of_factors(const Prediction& a, const Prediction& b) const {
  return tuner::covariance(calibration_, slopes(a), slopes(b));
}

double Residuals::covariance(const Plan& a, const Prediction& of_a, const Plan& b, const Prediction& of_b) const {
  const double residual = calibration_.residual_sigma * calibration_.residual_sigma;
  return residual * likeness(a, b) + of_factors(of_a, of_b);
}

std::vector<double> Residuals::covariances(const Plan& plan, const Prediction& prediction) const {
  std::vector<double> all;
  for (const Residual& one : known_) all.push_back(covariance(plan, prediction, one.plan, one.prediction));
  return all;
}

Gain Residuals::gain(const Plan& from, const Prediction& of_from, const Plan& to, const Prediction& of_to) const {
  std::vector<double> apart = covariances(from, of_from);
  const std::vector<double> of_the_other = covariances(to, of_to);
  for (std::size_t i = 0; i < apart.size(); ++i) apart[i] -= of_the_other[i];
  const double prior = covariance(from, of_from, from, of_from) + covariance(to, of_to, to, of_to) -
                       2 * covariance(from, of_from, to, of_to);
  const Estimate residual = process_.estimate(apart, prior);
  const double predicted = std::log(std::max(of_from.iteration_ms, 1e-9) / std::max(of_to.iteration_ms, 1e-9));
  return {predicted + residual.mean, residual.sigma};
}

}  // namespace trimtab::coordinator
