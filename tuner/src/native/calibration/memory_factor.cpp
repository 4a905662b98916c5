#include "native/calibration/memory_factor.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "native/calibration/left_out.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kResidualPriorWeight = 4;  // peaks that the prior of the residual counts for
constexpr int kRounds = 30;
constexpr int kLinearizations = 4;
constexpr double kLongestStep = 0.5;

double predicted(const MemoryRow& row, double factor) {
  return row.constant + row.scales * factor;
}

// Of what the factor leaves of the peaks; what the factor may be off by, where it is not learnt, explains a part.
double residual_of(const std::vector<MemoryRow>& rows, const Factor& factor, bool learnt, double prior) {
  double sum = kResidualPriorWeight * prior * prior;
  for (const MemoryRow& row : rows) {
    const double left = (row.measured - predicted(row, factor.value)) / row.measured;
    const double may_be = learnt ? 0 : row.scales * factor.value * factor.log_sigma / row.measured;
    sum += std::max(0.0, left * left - may_be * may_be);
  }
  const double decided = learnt ? 1 : 0;
  return std::sqrt(sum / (kResidualPriorWeight + std::max(0.0, static_cast<double>(rows.size()) - decided)));
}

Factor fit(const std::vector<MemoryRow>& rows, const Factor& prior, double residual,
           std::optional<std::size_t> left_out = {}) {
  const double prior_precision = 1 / (prior.log_sigma * prior.log_sigma);
  const double center = std::log(prior.value);
  double log_factor = center;
  double information = prior_precision;
  for (int round = 0; round < kRounds; ++round) {
    information = prior_precision;
    double gradient = -prior_precision * (log_factor - center);
    for (const MemoryRow& row : rows) {
      if (left_out == row.observation) continue;
      const double slope = row.scales * std::exp(log_factor);
      const double sigma = residual * row.measured;
      gradient += slope * (row.measured - row.constant - slope) / (sigma * sigma);
      information += slope * slope / (sigma * sigma);
    }
    const double step = gradient / information;
    log_factor += std::clamp(step, -kLongestStep, kLongestStep);
  }
  return {std::exp(log_factor), 1 / std::sqrt(information)};
}

LeftOutErrors errors(const std::vector<MemoryRow>& rows, const std::function<double(std::size_t)>& factor_without) {
  LeftOutErrors all;
  std::set<std::size_t> seen;
  for (const MemoryRow& of : rows) {
    if (!seen.insert(of.observation).second) continue;
    const double factor = factor_without(of.observation);
    double sum = 0;
    double stages = 0;
    for (const MemoryRow& row : rows) {
      if (row.observation != of.observation) continue;
      sum += std::abs(predicted(row, factor) / row.measured - 1);
      ++stages;
    }
    all.push_back(sum / stages);
  }
  return all;
}

LeftOutErrors errors_at(const std::vector<MemoryRow>& rows, double factor) {
  return errors(rows, [factor](std::size_t) { return factor; });
}

// Stages stand for plans where there is one plan.
void tell_apart(std::vector<MemoryRow>& rows) {
  const bool one =
      std::ranges::all_of(rows, [&](const MemoryRow& row) { return row.observation == rows[0].observation; });
  for (std::size_t i = 0; i < rows.size() && one; ++i) rows[i].observation = i;
}

}  // namespace

void learn_memory(const MemoryRows& rows_at, const Calibration& earlier, Calibration& calibration) {
  calibration.memory = earlier.memory;
  calibration.memory_sigma = earlier.memory_sigma;
  std::vector<MemoryRow> rows = rows_at(earlier.memory.value);
  if (rows.empty()) return;
  Factor prior = earlier.memory;
  if (mean(errors_at(rows, prior.value)) > mean(errors_at(rows_at(1), 1))) {
    prior = {1, std::max(prior.log_sigma, Calibration{}.memory.log_sigma)};
    rows = rows_at(1);
  }
  Factor learnt = prior;
  double residual = earlier.memory_sigma;
  for (int i = 0; i < kLinearizations; ++i) {
    rows = rows_at(learnt.value);
    learnt = fit(rows, prior, residual);
    residual = residual_of(rows, learnt, true, earlier.memory_sigma);
  }
  tell_apart(rows);
  const LeftOutErrors after =
      errors(rows, [&](std::size_t observation) { return fit(rows, prior, residual, observation).value; });
  std::vector<MemoryRow> at_prior = rows_at(prior.value);
  tell_apart(at_prior);
  const bool foretells = falls(errors_at(at_prior, prior.value), after, earlier.memory_sigma);
  calibration.memory = foretells ? learnt : prior;
  calibration.memory_sigma = foretells ? residual : residual_of(at_prior, prior, false, earlier.memory_sigma);
}

}  // namespace trimtab::tuner
