#include "native/calibration/time_fit.hpp"

#include <algorithm>

namespace trimtab::tuner {
namespace {

constexpr double kFixedPrior = 0.05;        // of the mean measured step
constexpr double kResidualPriorWeight = 4;  // observations that the prior of the residual counts for
constexpr double kFarSigmas = 3;            // by which a stage's wait is off that counts for half
constexpr double kLeastVariance = 1e-12;    // of a logarithm: known for certain
constexpr double kLongestStep = 0.5;        // of a logarithm
constexpr double kConverged = 1e-5;         // of a logarithm
constexpr int kRounds = 30;
constexpr int kNearRounds = 4;  // from a fit nearby

// Gauss and Jordan, of the first n; a sum of a positive diagonal and outer products is never singular.
TimeCovariance inverse(TimeCovariance m, std::size_t n) {
  TimeCovariance result{};
  for (std::size_t i = 0; i < n; ++i) result[i][i] = 1;
  for (std::size_t i = 0; i < n; ++i) {
    const double pivot = m[i][i];
    for (std::size_t k = 0; k < n; ++k) {
      m[i][k] /= pivot;
      result[i][k] /= pivot;
    }
    for (std::size_t j = 0; j < n; ++j) {
      if (j == i) continue;
      const double factor = m[j][i];
      for (std::size_t k = 0; k < n; ++k) {
        m[j][k] -= factor * m[i][k];
        result[j][k] -= factor * result[i][k];
      }
    }
  }
  return result;
}

// Of a covariance: Cholesky on the correlations.
bool is_positive_definite(const TimeCovariance& of) {
  constexpr double kLeast = 1e-9;
  TimeCovariance root{};
  for (std::size_t i = 0; i < kTimeParameters; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double left = of[i][j] / std::sqrt(of[i][i] * of[j][j]);
      for (std::size_t k = 0; k < j; ++k) left -= root[i][k] * root[j][k];
      if (i == j && !(left > kLeast)) return false;
      root[i][j] = i == j ? std::sqrt(left) : left / root[j][j];
    }
  }
  return true;
}

// What is known of each parameter alone.
TimeCovariance diagonal_of(const TimeCovariance& of) {
  TimeCovariance result{};
  for (std::size_t i = 0; i < kTimeParameters; ++i) result[i][i] = of[i][i];
  return result;
}

bool any_class(const Applied& applied) {
  bool any = false;
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) any = any || applied[place(k)];
  return any;
}

// Of the classes, in the mean.
double class_variance(const TimeCovariance& of) {
  double sum = 0;
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) sum += of[place(k)][place(k)];
  return sum / static_cast<double>(kCommunicationClasses);
}

double spread(const TimeSlopes& slope, const TimeCovariance& covariance) {
  return shared(slope, covariance, slope);
}

// The same of a covariance that is 0 but for these parameters.
double spread(const TimeSlopes& slope, const TimeCovariance& covariance, const std::vector<std::size_t>& of) {
  double sum = 0;
  for (const std::size_t i : of) {
    for (const std::size_t j : of) sum += slope[i] * covariance[i][j] * slope[j];
  }
  return sum;
}

// A step time has the residual. What a stage waited for has all of its noise, and counts for the less the farther it is
// off what it may be (Cauchy's weights): something else is wrong there than a factor.
double variance_of(const TimeRow& row, double modelled, double residual) {
  const double noise = row.noise * row.noise;
  if (row.is_step) return noise + residual * residual * row.measured * row.measured;
  const double off = row.measured - modelled;
  return noise * (1 + off * off / (kFarSigmas * kFarSigmas * row.expected));
}

}  // namespace

void add_common(const Applied& classes, double times, TimeCovariance& of) {
  for (std::size_t k = 0; k < kTimeParameters; ++k) {
    if (!classes[k]) continue;
    for (std::size_t j = 0; j < kTimeParameters; ++j) of[k][j] += times * of[kCommunication][j];
    for (std::size_t j = 0; j < kTimeParameters; ++j) of[j][k] += times * of[j][kCommunication];
  }
}

TimePrior prior_of(const Calibration& calibration, std::span<const TimeRow> rows) {
  double sum = 0;
  double steps = 0;
  for (const TimeRow& row : rows) {
    if (!row.is_step) continue;
    sum += row.measured;
    ++steps;
  }
  TimePrior prior;
  prior.mean = parameters(calibration);
  prior.covariance = time_covariance(calibration);
  prior.fixed_variance = prior.covariance[kFixed][kFixed];
  if (!(prior.fixed_variance > 0) && steps > 0)
    prior.covariance[kFixed][kFixed] = std::pow(kFixedPrior * sum / steps, 2);
  for (std::size_t i = 0; i < kTimeParameters; ++i) {
    prior.covariance[i][i] = std::max(prior.covariance[i][i], kLeastVariance);
  }
  if (!is_positive_definite(prior.covariance)) prior.covariance = diagonal_of(prior.covariance);
  prior.residual = calibration.residual_sigma;
  return prior;
}

void set_expected(const TimePrior& prior, std::span<TimeRow> rows) {
  const TimeSlopes at = factors(prior.mean);
  for (TimeRow& row : rows) row.expected = row.noise * row.noise + spread(row.slope(at), prior.covariance);
}

TimeFitter::TimeFitter(const TimePrior& prior, const Applied& applied)
    : prior_(prior), applied_(applied), own_(prior.covariance) {
  Applied classes;
  for (std::size_t i = 0; i < kTimeParameters; ++i) {
    (applied[i] ? of_ : others_).push_back(i);
    classes[i] = apart(i);
  }
  unlearnt_ = prior.covariance;
  for (std::size_t i = 0; i < kTimeParameters; ++i) {
    for (std::size_t j = 0; j < kTimeParameters; ++j) {
      if (applied[i] || applied[j]) unlearnt_[i][j] = 0;
      const bool fixed = i == kFixed || j == kFixed;
      if (fixed && !(prior.fixed_variance > 0)) unlearnt_[i][j] = 0;
    }
  }
  add_common(classes, 1, own_);
  if (applied[kCommunication] && !any_class(applied)) own_[kCommunication][kCommunication] += class_variance(own_);
  TimeCovariance small{};
  for (std::size_t i = 0; i < of_.size(); ++i) {
    for (std::size_t j = 0; j < of_.size(); ++j) small[i][j] = own_[of_[i]][of_[j]];
  }
  precision_ = inverse(small, of_.size());
}

bool TimeFitter::apart(std::size_t parameter) const {
  const bool is_class = parameter >= place(0) && parameter < place(kCommunicationClasses);
  return is_class && applied_[parameter] && !applied_[kCommunication];
}

TimeFitter::Sums TimeFitter::sums(std::span<const TimeRow> rows, std::optional<std::size_t> left_out,
                                  const TimeFit& fit) const {
  const std::size_t n = of_.size();
  Sums sums;
  sums.information = precision_;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      sums.gradient[i] -= precision_[i][j] * (fit.at[of_[j]] - prior_.mean[of_[j]]);
    }
  }
  const TimeSlopes at = factors(fit.at);
  for (const TimeRow& row : rows) {
    if (left_out == row.observation) continue;
    const double modelled = row.model(at);
    const double weight = 1 / variance_of(row, modelled, fit.residual);
    const double left = row.measured - modelled;
    TimeSlopes slope = row.slope(at);
    if (!row.is_step) slope[kComputing] = 0;  // waits are no measurement of what computes
    for (std::size_t i = 0; i < n; ++i) {
      const double of_row = weight * slope[of_[i]];
      sums.gradient[i] += of_row * left;
      for (std::size_t j = 0; j < n; ++j) sums.information[i][j] += of_row * slope[of_[j]];
    }
  }
  return sums;
}

double TimeFitter::newton_step(std::span<const TimeRow> rows, std::optional<std::size_t> left_out, TimeFit& fit) const {
  const std::size_t n = of_.size();
  const Sums now = sums(rows, left_out, fit);
  const TimeCovariance learnt = inverse(now.information, n);
  fit.covariance = {};
  double longest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double step = 0;
    for (std::size_t j = 0; j < n; ++j) {
      step += learnt[i][j] * now.gradient[j];
      fit.covariance[of_[i]][of_[j]] = learnt[i][j];
    }
    if (of_[i] == kFixed) {
      fit.at[kFixed] += step;
      continue;
    }
    step = std::clamp(step, -kLongestStep, kLongestStep);
    fit.at[of_[i]] += step;
    longest = std::max(longest, std::abs(step));
  }
  return longest;
}

// Of what the model leaves of step times, what neither the measurements' own noise explains nor what is not learnt may;
// parameters that these times decided count.
double TimeFitter::residual_of(std::span<const TimeRow> rows, std::optional<std::size_t> left_out,
                               const TimeFit& fit) const {
  double decided = 0;
  double steps = 0;
  double sum = kResidualPriorWeight * prior_.residual * prior_.residual;
  const TimeSlopes at = factors(fit.at);
  for (const TimeRow& row : rows) {
    if (!row.is_step || left_out == row.observation) continue;
    const double modelled = row.model(at);
    TimeSlopes slope = row.slope(at);
    const double left = row.measured - modelled;
    const double by_learnt = spread(slope, fit.covariance, of_);
    for (const std::size_t i : of_) slope[kCommunication] -= apart(i) ? slope[i] : 0;
    const double explained = row.noise * row.noise + spread(slope, unlearnt_, others_);
    sum += std::max(0.0, left * left - explained) / (row.measured * row.measured);
    decided += by_learnt / variance_of(row, modelled, fit.residual);
    ++steps;
  }
  return std::sqrt(sum / (kResidualPriorWeight + std::max(0.0, steps - decided)));
}

TimeFit TimeFitter::fit(std::span<const TimeRow> rows, std::optional<std::size_t> left_out,
                        const TimeFit* begin) const {
  TimeFit fit;
  fit.at = prior_.mean;
  fit.residual = begin != nullptr ? begin->residual : prior_.residual;
  for (const std::size_t i : of_) fit.at[i] = begin != nullptr ? begin->at[i] : prior_.mean[i];
  const int rounds = begin != nullptr ? kNearRounds : kRounds;
  for (int round = 0; round < rounds; ++round) {
    const double moved = newton_step(rows, left_out, fit);
    const double before = fit.residual;
    fit.residual = residual_of(rows, left_out, fit);
    if (moved < kConverged && std::abs(fit.residual - before) < kConverged) break;
  }
  return fit;
}

void TimeFitter::take(const TimeFit& fit, Calibration& calibration) const {
  set_parameters(fit.at, calibration);
  calibration.residual_sigma = fit.residual;
  // Learnt and not learnt hang together no more, but for a class and the factor on all: of their sum more is known than
  // of either.
  TimeCovariance covariance = unlearnt_;
  Applied classes;
  for (std::size_t i = 0; i < kTimeParameters; ++i) {
    classes[i] = apart(i);
    for (std::size_t j = 0; j < kTimeParameters; ++j) covariance[i][j] += fit.covariance[i][j];
  }
  add_common(classes, -1, covariance);
  set_time_covariance(covariance, calibration);
}

}  // namespace trimtab::tuner
