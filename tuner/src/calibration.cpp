#include "tuner/calibration.hpp"

#include <algorithm>
#include <cmath>

// Maximum a posteriori by Gauss and Newton. A step is modelled as
//   measured = e^a * computation share + e^b * sum over classes c of e^u_c * share of c + fixed share + g + noise,
// with normal priors on a, b, u (around 0) and g; noise is the measurement's own and a relative residual, itself shrunk
// towards its prior. The shares are the prediction's critical path: what the step would scale with. What a stage waited
// for (term_rows.hpp) is modelled alike.

#include "operator_factors.hpp"
#include "term_rows.hpp"
#include "time_parameters.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kFixedPrior = 0.05;        // of the mean measured step
constexpr double kResidualPriorWeight = 4;  // observations that the prior of the residual counts for
constexpr int kRounds = 30;
constexpr int kLinearizations = 4;    // shares taken anew
constexpr int kWaitsRound = 1;        // in which waits are linearized: four predictions more of each plan
constexpr double kFarSigmas = 3;      // by which a stage's wait is off that counts for half
constexpr double kMemoryStep = 0.02;  // of the factor: for slopes
constexpr double kAging = 0.05;       // of a factor: what may have changed since an earlier job
constexpr double kOtherJob = 0.1;     // of a factor: what another job's operators and messages may differ by

using Vector = TimeSlopes;
using Matrix = TimeCovariance;

// Gauss and Jordan; a sum of a positive diagonal and outer products is never singular.
Matrix inverse(Matrix m) {
  Matrix result{};
  for (std::size_t i = 0; i < kTimeParameters; ++i) result[i][i] = 1;
  for (std::size_t i = 0; i < kTimeParameters; ++i) {
    const double pivot = m[i][i];
    for (std::size_t k = 0; k < kTimeParameters; ++k) {
      m[i][k] /= pivot;
      result[i][k] /= pivot;
    }
    for (std::size_t j = 0; j < kTimeParameters; ++j) {
      if (j == i) continue;
      const double factor = m[j][i];
      for (std::size_t k = 0; k < kTimeParameters; ++k) {
        m[j][k] -= factor * m[i][k];
        result[j][k] -= factor * result[i][k];
      }
    }
  }
  return result;
}

// Of a covariance: Cholesky on the correlations.
bool is_positive_definite(const Matrix& of) {
  constexpr double kLeast = 1e-9;
  Matrix root{};
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
Matrix diagonal_of(const Matrix& of) {
  Matrix result{};
  for (std::size_t i = 0; i < kTimeParameters; ++i) result[i][i] = of[i][i];
  return result;
}

struct Fit {
  Vector at{};
  Matrix covariance{};
  double residual = 0;
};

struct Prior {
  Vector mean{};
  Matrix covariance{};
  Matrix precision{};
  double residual = 0;
};

double spread(const Vector& slope, const Matrix& covariance) {
  return shared(slope, covariance, slope);
}

// A step time has the residual. What a stage waited for has all of its noise, and counts for the less the farther it is
// off what it may be (Cauchy's weights): something else is wrong there than a factor.
double variance_of(const TimeRow& row, const Vector& at, const Prior& prior, double residual) {
  const double noise = row.noise * row.noise;
  if (row.is_step) return noise + residual * residual * row.measured * row.measured;
  const double off = row.measured - row.model(at);
  const double may_be = noise + spread(row.slope(prior.mean), prior.covariance);
  return noise * (1 + off * off / (kFarSigmas * kFarSigmas * may_be));
}

void newton_step(const std::vector<TimeRow>& rows, const Prior& prior, Fit& fit) {
  Matrix information = prior.precision;
  Vector gradient{};
  for (std::size_t i = 0; i < kTimeParameters; ++i) {
    for (std::size_t j = 0; j < kTimeParameters; ++j) {
      gradient[i] -= prior.precision[i][j] * (fit.at[j] - prior.mean[j]);
    }
  }
  for (const TimeRow& row : rows) {
    const double weight = 1 / variance_of(row, fit.at, prior, fit.residual);
    const double left = row.measured - row.model(fit.at);
    const Vector slope = row.slope(fit.at);
    for (std::size_t i = 0; i < kTimeParameters; ++i) {
      gradient[i] += weight * left * slope[i];
      for (std::size_t j = 0; j < kTimeParameters; ++j) information[i][j] += weight * slope[i] * slope[j];
    }
  }
  fit.covariance = inverse(information);
  for (std::size_t i = 0; i < kTimeParameters; ++i) {
    double step = 0;
    for (std::size_t j = 0; j < kTimeParameters; ++j) step += fit.covariance[i][j] * gradient[j];
    const double longest = i == kFixed ? std::abs(step) : 0.5;  // a factor moves by at most e^0.5 at once
    fit.at[i] += std::clamp(step, -longest, longest);
  }
}

// Of what the model leaves of step times, what the measurements' own noise does not explain; parameters that these
// times decided count.
double residual_of(const std::vector<TimeRow>& rows, const Prior& prior, const Fit& fit) {
  double decided = 0;
  double steps = 0;
  double sum = kResidualPriorWeight * prior.residual * prior.residual;
  for (const TimeRow& row : rows) {
    if (!row.is_step) continue;
    const double left = (row.measured - row.model(fit.at)) / row.measured;
    const double noise = row.noise / row.measured;
    sum += std::max(0.0, left * left - noise * noise);
    decided += spread(row.slope(fit.at), fit.covariance) / variance_of(row, fit.at, prior, fit.residual);
    ++steps;
  }
  return std::sqrt(sum / (kResidualPriorWeight + std::max(0.0, steps - decided)));
}

// A prediction's shares are its slopes by the logarithms of the factors that it was made with, `at`. One that lacks
// costs says nothing of the factors: what is missing counts as no time at all.
std::vector<TimeRow> step_rows(const std::vector<Observation>& observations, const std::vector<Prediction>& predictions,
                               const Calibration& at) {
  std::vector<TimeRow> rows;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const Observation& seen = observations[i];
    const Prediction& prediction = predictions[i];
    if (!std::isfinite(seen.measured_ms) || seen.measured_ms <= 0 || prediction.iteration_ms <= 0) continue;
    if (!prediction.missing_costs.empty()) continue;
    const double noise = std::max(0.0, seen.measured_sigma_ms);
    rows.push_back(step_row(at, prediction.iteration_ms, time_slopes(prediction), {seen.measured_ms, noise}));
  }
  return rows;
}

Prior prior_of(const std::vector<TimeRow>& rows, const Calibration& prior) {
  double sum = 0;
  double steps = 0;
  for (const TimeRow& row : rows) {
    if (!row.is_step) continue;
    sum += row.measured;
    ++steps;
  }
  Prior result;
  result.mean = parameters(prior);
  result.covariance = time_covariance(prior);
  if (!(prior.fixed_sigma_ms > 0)) result.covariance[kFixed][kFixed] = std::pow(kFixedPrior * sum / steps, 2);
  if (!is_positive_definite(result.covariance)) result.covariance = diagonal_of(result.covariance);
  result.precision = inverse(result.covariance);
  result.residual = prior.residual_sigma;
  return result;
}

Fit fit_time(const std::vector<TimeRow>& rows, const Calibration& from) {
  const Prior prior = prior_of(rows, from);
  Fit fit;
  fit.at = prior.mean;
  fit.residual = prior.residual;
  for (int round = 0; round < kRounds; ++round) {
    newton_step(rows, prior, fit);
    fit.residual = residual_of(rows, prior, fit);
  }
  return fit;
}

void take(const Fit& fit, Calibration& calibration) {
  calibration.computation.value = std::exp(fit.at[0]);
  calibration.communication.value = std::exp(fit.at[1]);
  calibration.fixed_ms = fit.at[kFixed];
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) calibration.classes[k].value = std::exp(fit.at[place(k)]);
  set_time_covariance(fit.covariance, calibration);
  calibration.residual_sigma = fit.residual;
}

// One factor on what scales, beside what does not: the same idea in one dimension, over all measured stages.
struct MemoryRow {
  double scales = 0;
  double constant = 0;
  double measured = 0;
};

std::vector<MemoryRow> memory_rows(const std::vector<Observation>& observations) {
  std::vector<MemoryRow> rows;
  for (const Observation& seen : observations) {
    if (!seen.prediction.missing_costs.empty()) continue;
    const std::size_t stages = std::min(seen.measured_memory_bytes.size(), seen.prediction.stages.size());
    for (std::size_t s = 0; s < stages; ++s) {
      const StagePrediction& stage = seen.prediction.stages[s];
      const StageMemory& memory = stage.memory;
      const auto scales = static_cast<double>(memory.activations + memory.recompute_peak + memory.working);
      const double constant = static_cast<double>(stage.memory_bytes) - scales;
      if (seen.measured_memory_bytes[s] > 0 && scales > 0) {
        rows.push_back({scales, constant, seen.measured_memory_bytes[s]});
      }
    }
  }
  return rows;
}

// Of what the factor leaves of the peaks.
double memory_residual_of(const std::vector<MemoryRow>& rows, double factor, double prior) {
  double sum = kResidualPriorWeight * prior * prior;
  for (const MemoryRow& row : rows) {
    const double left = (row.measured - row.constant - row.scales * factor) / row.measured;
    sum += left * left;
  }
  return std::sqrt(sum / (kResidualPriorWeight + std::max(0.0, static_cast<double>(rows.size()) - 1)));
}

Factor memory_factor(const std::vector<MemoryRow>& rows, const Factor& prior, double residual) {
  const double prior_precision = 1 / (prior.log_sigma * prior.log_sigma);
  const double center = std::log(prior.value);
  double log_factor = center;
  double information = prior_precision;
  for (int round = 0; round < kRounds; ++round) {
    information = prior_precision;
    double gradient = -prior_precision * (log_factor - center);
    for (const MemoryRow& row : rows) {
      const double slope = row.scales * std::exp(log_factor);
      const double sigma = residual * row.measured;
      gradient += slope * (row.measured - row.constant - slope) / (sigma * sigma);
      information += slope * slope / (sigma * sigma);
    }
    log_factor += std::clamp(gradient / information, -0.5, 0.5);
  }
  return {std::exp(log_factor), 1 / std::sqrt(information)};
}

void fit_memory(const std::vector<MemoryRow>& rows, const Calibration& prior, Calibration& calibration) {
  if (rows.empty()) return;
  calibration.memory = memory_factor(rows, prior.memory, calibration.memory_sigma);
  calibration.memory_sigma = memory_residual_of(rows, calibration.memory.value, prior.memory_sigma);
}

// What of a peak scales with the factor depends on what is recomputed, and a little on the factor: where it is the
// larger of two that counts.
std::vector<MemoryRow> memory_rows_at(const CostTable& table, const std::vector<Observation>& observations,
                                      const Calibration& at) {
  Calibration more = at;
  more.memory.value *= 1 + kMemoryStep;
  const NativeCostModel now(table, at);
  const NativeCostModel then(table, more);
  std::vector<MemoryRow> rows;
  for (const Observation& seen : observations) {
    if (seen.measured_memory_bytes.empty() || !seen.prediction.missing_costs.empty()) continue;
    const Prediction here = now.evaluate(seen.plan);
    const Prediction there = then.evaluate(seen.plan);
    for (std::size_t s = 0; s < std::min(seen.measured_memory_bytes.size(), here.stages.size()); ++s) {
      const auto bytes = static_cast<double>(here.stages[s].memory_bytes);
      const double scales =
          (static_cast<double>(there.stages[s].memory_bytes) - bytes) / (kMemoryStep * at.memory.value);
      const double measured = seen.measured_memory_bytes[s];
      if (measured > 0 && scales > 0) rows.push_back({scales, bytes - scales * at.memory.value, measured});
    }
  }
  return rows;
}

// However often it ages, a factor is not less sure than where nothing is known and the change is new.
void limit(const Vector& changed, Matrix& covariance) {
  const Matrix unknown = time_covariance({});
  for (std::size_t i = 0; i < kTimeParameters; ++i) {
    const double most = unknown[i][i] + changed[i];
    if (i == kFixed || covariance[i][i] <= most) continue;
    const double shrink = std::sqrt(most / covariance[i][i]);
    for (std::size_t j = 0; j < kTimeParameters; ++j) {
      covariance[i][j] *= shrink;
      covariance[j][i] *= shrink;
    }
  }
}

}  // namespace

Calibration calibrate(const std::vector<Observation>& observations) {
  Calibration calibration;
  const Calibration prior;
  std::vector<Prediction> predictions;
  for (const Observation& seen : observations) predictions.push_back(seen.prediction);
  const std::vector<TimeRow> rows = step_rows(observations, predictions, prior);
  calibration.observations = static_cast<int>(rows.size());
  if (!rows.empty()) take(fit_time(rows, prior), calibration);
  fit_memory(memory_rows(observations), prior, calibration);
  return calibration;
}

Calibration calibrate(const CostTable& table, const std::vector<Observation>& observations,
                      const Calibration& earlier) {
  const Calibration prior = learn_operators(table, observations, earlier);
  Calibration calibration = prior;
  calibration.observations = 0;
  if (observations.empty()) return calibration;
  std::vector<TimeRow> waits;
  for (int round = 0; round < kLinearizations; ++round) {
    const NativeCostModel model(table, calibration);
    std::vector<Prediction> predictions;
    for (const Observation& seen : observations) predictions.push_back(model.evaluate(seen.plan));
    std::vector<TimeRow> rows = step_rows(observations, predictions, calibration);
    if (rows.empty()) return prior;
    calibration.observations = static_cast<int>(rows.size());
    if (round == kWaitsRound) add_term_rows(model, observations, predictions, waits);
    rows.insert(rows.end(), waits.begin(), waits.end());
    take(fit_time(rows, prior), calibration);
  }
  const bool tells_memory = std::ranges::any_of(observations, [](const Observation& seen) {
    return !seen.measured_memory_bytes.empty() && seen.prediction.missing_costs.empty();
  });
  for (int round = 0; round < kLinearizations && tells_memory; ++round) {
    fit_memory(memory_rows_at(table, observations, calibration), prior, calibration);
  }
  return calibration;
}

Calibration aged(Calibration calibration, double computation_shift, double communication_shift) {
  const auto square = [](double of) { return of * of; };
  const double moving = square(kAging) + square(communication_shift);
  // A class's factor is the product of two: half the change each.
  Vector changed{square(kAging) + square(computation_shift), moving / 2, square(kAging * calibration.fixed_ms)};
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) changed[place(k)] = moving / 2;
  TimeCovariance covariance = time_covariance(calibration);
  for (std::size_t i = 0; i < kTimeParameters; ++i) covariance[i][i] += changed[i];
  limit(changed, covariance);
  set_time_covariance(covariance, calibration);
  calibration.memory.log_sigma = std::hypot(calibration.memory.log_sigma, kAging);
  for (auto& [key, factor] : calibration.operators) factor.log_sigma = std::hypot(factor.log_sigma, kAging);
  return calibration;
}

Calibration of_another_job(const Calibration& calibration) {
  const Calibration unknown;
  // Never less sure than where nothing is known.
  const auto less_sure = [](const Factor& learnt, const Factor& nothing) {
    return Factor{learnt.value, std::min(std::hypot(learnt.log_sigma, kOtherJob), nothing.log_sigma)};
  };
  Calibration prior;
  for (Factor Calibration::*const factor :
       {&Calibration::computation, &Calibration::communication, &Calibration::memory}) {
    prior.*factor = less_sure(calibration.*factor, unknown.*factor);
  }
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) {
    prior.classes[k] = less_sure(calibration.classes[k], unknown.classes[k]);
  }
  return prior;
}

}  // namespace trimtab::tuner
