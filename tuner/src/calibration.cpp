#include "tuner/calibration.hpp"

#include <algorithm>
#include <cmath>

// Maximum a posteriori by Gauss and Newton. A step is modelled as
//   measured = e^a * computation share + e^b * communication share + fixed share + g + noise,
// with normal priors on a, b (around 0) and g; noise is the measurement's own and a relative residual, itself shrunk
// towards its prior. The shares are the prediction's critical path: what the step would scale with.

#include "operator_factors.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {
namespace {

constexpr int kParameters = 3;              // a, b, g
constexpr double kFixedPrior = 0.05;        // of the mean measured step
constexpr double kResidualPriorWeight = 4;  // observations that the prior of the residual counts for
constexpr int kRounds = 30;
constexpr int kLinearizations = 4;    // shares taken anew
constexpr double kLinksShift = 3;     // how much more a link may have changed than the step
constexpr double kMemoryStep = 0.02;  // of the factor: for slopes
constexpr double kAging = 0.05;       // of a factor: what may have changed since an earlier job
constexpr double kOtherJob = 0.1;     // of a factor: what another job's operators and messages may differ by

using Vector = std::array<double, kParameters>;
using Matrix = std::array<Vector, kParameters>;

struct Row {
  double computation = 0;
  double communication = 0;
  double fixed = 0;
  double measured = 0;
  double noise = 0;  // standard error of the measurement

  [[nodiscard]] double model(const Vector& at) const {
    return computation * std::exp(at[0]) + communication * std::exp(at[1]) + fixed + at[2];
  }
  [[nodiscard]] Vector slope(const Vector& at) const {
    return {computation * std::exp(at[0]), communication * std::exp(at[1]), 1.0};
  }
};

// Gauss and Jordan; a sum of a positive diagonal and outer products is never singular.
Matrix inverse(Matrix m) {
  Matrix result{};
  for (int i = 0; i < kParameters; ++i) result[i][i] = 1;
  for (int i = 0; i < kParameters; ++i) {
    const double pivot = m[i][i];
    for (int k = 0; k < kParameters; ++k) {
      m[i][k] /= pivot;
      result[i][k] /= pivot;
    }
    for (int j = 0; j < kParameters; ++j) {
      if (j == i) continue;
      const double factor = m[j][i];
      for (int k = 0; k < kParameters; ++k) {
        m[j][k] -= factor * m[i][k];
        result[j][k] -= factor * result[i][k];
      }
    }
  }
  return result;
}

struct Fit {
  Vector at{};
  Matrix covariance{};
  double residual = 0;
};

double variance_of(const Row& row, double residual) {
  return row.noise * row.noise + residual * residual * row.measured * row.measured;
}

struct Prior {
  Vector mean{};
  Vector sigma{};
  double residual = 0;
};

void newton_step(const std::vector<Row>& rows, const Prior& prior, Fit& fit) {
  Matrix information{};
  Vector gradient{};
  for (int i = 0; i < kParameters; ++i) {
    const double precision = 1 / (prior.sigma[i] * prior.sigma[i]);
    information[i][i] = precision;
    gradient[i] = -precision * (fit.at[i] - prior.mean[i]);
  }
  for (const Row& row : rows) {
    const double weight = 1 / variance_of(row, fit.residual);
    const double left = row.measured - row.model(fit.at);
    const Vector slope = row.slope(fit.at);
    for (int i = 0; i < kParameters; ++i) {
      gradient[i] += weight * left * slope[i];
      for (int j = 0; j < kParameters; ++j) information[i][j] += weight * slope[i] * slope[j];
    }
  }
  fit.covariance = inverse(information);
  for (int i = 0; i < kParameters; ++i) {
    double step = 0;
    for (int j = 0; j < kParameters; ++j) step += fit.covariance[i][j] * gradient[j];
    const double longest = i < 2 ? 0.5 : std::abs(step);  // a factor moves by at most e^0.5 at once
    fit.at[i] += std::clamp(step, -longest, longest);
  }
}

// Of what the model leaves, what the measurements' own noise does not explain; parameters that the data decided count.
double residual_of(const std::vector<Row>& rows, const Prior& prior, const Fit& fit) {
  double decided = 0;
  for (int i = 0; i < kParameters; ++i) decided += 1 - fit.covariance[i][i] / (prior.sigma[i] * prior.sigma[i]);
  double sum = kResidualPriorWeight * prior.residual * prior.residual;
  for (const Row& row : rows) {
    const double left = (row.measured - row.model(fit.at)) / row.measured;
    const double noise = row.noise / row.measured;
    sum += std::max(0.0, left * left - noise * noise);
  }
  const double freedom = std::max(0.0, static_cast<double>(rows.size()) - decided);
  return std::sqrt(sum / (kResidualPriorWeight + freedom));
}

// A prediction's shares are its slopes by the logarithms of the factors that it was made with, `at`. One that lacks
// costs says nothing of the factors: what is missing counts as no time at all.
std::vector<Row> rows_of(const std::vector<Observation>& observations, const std::vector<Prediction>& predictions,
                         const Calibration& at) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const Observation& seen = observations[i];
    const Prediction& prediction = predictions[i];
    const double fixed =
        prediction.iteration_ms - prediction.computation_share_ms - prediction.communication_share_ms - at.fixed_ms;
    if (!std::isfinite(seen.measured_ms) || seen.measured_ms <= 0 || prediction.iteration_ms <= 0) continue;
    if (!prediction.missing_costs.empty()) continue;
    rows.push_back({prediction.computation_share_ms / at.computation.value,
                    prediction.communication_share_ms / at.communication.value, fixed, seen.measured_ms,
                    std::max(0.0, seen.measured_sigma_ms)});
  }
  return rows;
}

Prior prior_of(const std::vector<Row>& rows, const Calibration& prior) {
  double mean = 0;
  for (const Row& row : rows) mean += row.measured / static_cast<double>(rows.size());
  const double fixed_sigma = prior.fixed_sigma_ms > 0 ? prior.fixed_sigma_ms : kFixedPrior * mean;
  return {{std::log(prior.computation.value), std::log(prior.communication.value), prior.fixed_ms},
          {prior.computation.log_sigma, prior.communication.log_sigma, fixed_sigma},
          prior.residual_sigma};
}

Fit fit_time(const std::vector<Row>& rows, const Calibration& from) {
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
  const auto sigma = [&fit](int i) { return std::sqrt(fit.covariance[i][i]); };
  const auto correlation = [&](int i, int j) { return fit.covariance[i][j] / (sigma(i) * sigma(j)); };
  calibration.computation = {std::exp(fit.at[0]), sigma(0)};
  calibration.communication = {std::exp(fit.at[1]), sigma(1)};
  calibration.fixed_ms = fit.at[2];
  calibration.fixed_sigma_ms = sigma(2);
  calibration.correlations = {correlation(0, 1), correlation(0, 2), correlation(1, 2)};
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

}  // namespace

Calibration calibrate(const std::vector<Observation>& observations) {
  Calibration calibration;
  const Calibration prior;
  std::vector<Prediction> predictions;
  for (const Observation& seen : observations) predictions.push_back(seen.prediction);
  const std::vector<Row> rows = rows_of(observations, predictions, prior);
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
  for (int round = 0; round < kLinearizations; ++round) {
    const NativeCostModel model(table, calibration);
    std::vector<Prediction> predictions;
    for (const Observation& seen : observations) predictions.push_back(model.evaluate(seen.plan));
    const std::vector<Row> rows = rows_of(observations, predictions, calibration);
    if (rows.empty()) return prior;
    take(fit_time(rows, prior), calibration);
    calibration.observations = static_cast<int>(rows.size());
  }
  const bool tells_memory = std::ranges::any_of(observations, [](const Observation& seen) {
    return !seen.measured_memory_bytes.empty() && seen.prediction.missing_costs.empty();
  });
  for (int round = 0; round < kLinearizations && tells_memory; ++round) {
    fit_memory(memory_rows_at(table, observations, calibration), prior, calibration);
  }
  return calibration;
}

Calibration aged(Calibration calibration, double shift) {
  calibration.computation.log_sigma = std::hypot(calibration.computation.log_sigma, shift);
  calibration.communication.log_sigma = std::hypot(calibration.communication.log_sigma, kLinksShift * shift);
  for (Factor* const factor : {&calibration.computation, &calibration.communication, &calibration.memory}) {
    factor->log_sigma = std::hypot(factor->log_sigma, kAging);
  }
  for (auto& [key, factor] : calibration.operators) factor.log_sigma = std::hypot(factor.log_sigma, kAging);
  calibration.fixed_sigma_ms = std::hypot(calibration.fixed_sigma_ms, kAging * std::abs(calibration.fixed_ms));
  calibration.correlations = {};
  return calibration;
}

Calibration of_another_job(const Calibration& calibration) {
  Calibration prior;
  for (Factor Calibration::*const factor :
       {&Calibration::computation, &Calibration::communication, &Calibration::memory}) {
    const Factor& learnt = calibration.*factor;
    // Never less sure than where nothing is known.
    (prior.*factor) = {learnt.value, std::min(std::hypot(learnt.log_sigma, kOtherJob), Factor{}.log_sigma)};
  }
  return prior;
}

}  // namespace trimtab::tuner
