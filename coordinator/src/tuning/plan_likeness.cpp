#include "tuning/plan_likeness.hpp"

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
constexpr double kLeastNoise = 1e-3;  // of a measurement: keeps the covariance regular

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

// Variance of what calibration leaves open, where both plans hang on the same factors.
double shared_variance(const Prediction& from, const Prediction& to, const tuner::Calibration& calibration) {
  if (from.iteration_ms <= 0 || to.iteration_ms <= 0) return 0;
  const auto apart = [&](double of_from, double of_to) {
    return of_from / from.iteration_ms - of_to / to.iteration_ms;
  };
  const double a = apart(from.computation_share_ms, to.computation_share_ms) * calibration.computation.log_sigma;
  const double b = apart(from.communication_share_ms, to.communication_share_ms) * calibration.communication.log_sigma;
  const double c = apart(1, 1) * calibration.fixed_sigma_ms;
  const auto& [ab, ac, bc] = calibration.correlations;
  return std::max(0.0, a * a + b * b + c * c + 2 * (ab * a * b + ac * a * c + bc * b * c));
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
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

Residuals::Residuals(std::vector<Residual> known, double sigma) : known_(std::move(known)), sigma_(sigma) {
  const std::size_t n = known_.size();
  factor_.assign(n, std::vector<double>(n, 0.0));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = sigma_ * sigma_ * likeness(known_[i].plan, known_[j].plan);
      const double noise = std::max(known_[i].noise, kLeastNoise);
      if (i == j) sum += noise * noise;
      for (std::size_t k = 0; k < j; ++k) sum -= factor_[i][k] * factor_[j][k];
      factor_[i][j] = i == j ? std::sqrt(std::max(sum, kLeastNoise * kLeastNoise)) : sum / factor_[j][j];
    }
  }
  std::vector<double> right;
  for (const Residual& one : known_) right.push_back(one.log_ratio);
  weights_ = solve(std::move(right));
}

std::vector<double> Residuals::solve(std::vector<double> right) const {
  const std::size_t n = right.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) right[i] -= factor_[i][k] * right[k];
    right[i] /= factor_[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) right[i] -= factor_[k][i] * right[k];
    right[i] /= factor_[i][i];
  }
  return right;
}

Residuals::Posterior Residuals::posterior(const Plan& plan) const {
  Posterior result;
  for (const Residual& one : known_) result.covariances.push_back(sigma_ * sigma_ * likeness(plan, one.plan));
  result.mean = dot(result.covariances, weights_);
  result.solved = solve(result.covariances);
  return result;
}

Gain Residuals::gain(const Plan& from, const Prediction& of_from, const Plan& to, const Prediction& of_to,
                     const tuner::Calibration& calibration) const {
  const Posterior a = posterior(from);
  const Posterior b = posterior(to);
  const double prior = sigma_ * sigma_;
  const double of_a = prior - dot(a.covariances, a.solved);
  const double of_b = prior - dot(b.covariances, b.solved);
  const double both = prior * likeness(from, to) - dot(a.covariances, b.solved);
  const double variance = std::max(0.0, of_a + of_b - 2 * both) + shared_variance(of_from, of_to, calibration);
  const double predicted = std::log(std::max(of_from.iteration_ms, 1e-9) / std::max(of_to.iteration_ms, 1e-9));
  return {predicted + a.mean - b.mean, std::sqrt(variance)};
}

}  // namespace trimtab::coordinator
