#include "uncertainty.hpp"

#include <algorithm>
#include <cmath>

namespace trimtab::tuner {
namespace {

// Times of a stage are linear in the all-reduces between the points where an overlap changes its form, so a small step
// gives the slope exactly up to rounding.
constexpr double kSlopeStep = 1e-6;

struct SyncSlopes {
  double last_backward = 0;
  double tail = 0;
};

SyncSlopes sync_slopes(const CostTable::Tables& tables, const Calibration& calibration, const PricedPlan& priced,
                       std::size_t s) {
  if (priced.shapes[s].dp < 2) return {};
  Calibration slower = calibration;
  slower.communication.value *= 1 + kSlopeStep;
  const StageTimes times = stage_times(tables, slower, priced.shapes[s], priced.recompute);
  return {(times.last_backward - priced.times[s].last_backward) / kSlopeStep,
          (times.tail() - priced.times[s].tail()) / kSlopeStep};
}

// Sums the errors of equal costs before squaring: one wrong cost is wrong wherever it is used.
class ErrorSum {
 public:
  explicit ErrorSum(const CostTable::Tables& tables)
      : groups_(tables.group_names.size()), errors_(groups_ * tables.samples.size() * 2, 0.0) {}

  void add(std::size_t sample_index, std::int32_t group, bool backward, double error) {
    errors_[(sample_index * groups_ + static_cast<std::size_t>(group)) * 2 + (backward ? 1 : 0)] += error;
  }
  void add_alone(double error) { squares_ += error * error; }
  [[nodiscard]] double variance() const {
    double sum = squares_;
    for (const double error : errors_) sum += error * error;
    return sum;
  }

 private:
  std::size_t groups_;
  std::vector<double> errors_;
  double squares_ = 0;
};

double sync_relative_error(const CostTable::Tables& tables, const StageShape& shape) {
  if (shape.dp < 2) return 0;
  double mean = 0;
  double error = 0;
  const SyncTable& sync = *tables.find_sync(shape.dp, shape.placement);
  for (std::int32_t i = shape.operators.begin; i < shape.operators.end; ++i) {
    mean += sync.all_reduce[i].mean;
    error += sync.all_reduce[i].error;
  }
  return mean > 0 ? error / mean : 0;
}

void add_stage_errors(const CostTable::Tables& tables, const Calibration& calibration, const PricedPlan& priced,
                      const CriticalPath& path, std::size_t s, ErrorSum& errors) {
  const StageShape& shape = priced.shapes[s];
  const SampleTable& costs = *tables.find(shape.samples);
  const auto sample_index = static_cast<std::size_t>(tables.sample_index[shape.samples]);
  const bool ends = path.end_stage == static_cast<std::int32_t>(s);
  const double backwards = path.backwards[s] + path.last_backwards[s] + (ends ? 1 : 0);
  const double factor = calibration.computation.value;
  for (std::int32_t i = shape.operators.begin; i < shape.operators.end; ++i) {
    const std::int32_t group = tables.group_of[i];
    const OperatorCosts& of = costs.of_group[group];
    const double forwards = path.forwards[s] + (priced.recompute[i] != 0 ? backwards : 0);
    errors.add(sample_index, group, false, forwards * of.forward.error * factor);
    errors.add(sample_index, group, true, backwards * of.backward.error * factor);
  }
}

// Factors and the fixed term are known with a covariance.
double calibration_variance(const Calibration& calibration, const Shares& shares) {
  const double a = shares.computation_ms * calibration.computation.log_sigma;
  const double b = shares.communication_ms * calibration.communication.log_sigma;
  const double c = calibration.fixed_sigma_ms;
  const auto& [ab, ac, bc] = calibration.correlations;
  return std::max(0.0, a * a + b * b + c * c + 2 * (ab * a * b + ac * a * c + bc * b * c));
}

}  // namespace

Shares critical_shares(const CostTable::Tables& tables, const Calibration& calibration, const PricedPlan& priced,
                       const RecordedStep& step, const CriticalPath& path) {
  double communication = 0;
  for (std::size_t s = 0; s < priced.shapes.size(); ++s) {
    communication += path.transfers[s] * priced.pipeline[s].transfer;
    const bool ends = path.end_stage == static_cast<std::int32_t>(s);
    if (!ends && path.last_backwards[s] == 0) continue;
    const SyncSlopes slopes = sync_slopes(tables, calibration, priced, s);
    communication += path.last_backwards[s] * slopes.last_backward + (ends ? slopes.tail : 0);
  }
  communication = std::clamp(communication, 0.0, step.end_ms);
  return {step.end_ms - communication, communication};
}

double step_sigma(const CostTable::Tables& tables, const Calibration& calibration, const PricedPlan& priced,
                  const CriticalPath& path, const Shares& shares, double iteration_ms) {
  ErrorSum errors(tables);
  for (std::size_t s = 0; s < priced.shapes.size(); ++s) {
    add_stage_errors(tables, calibration, priced, path, s, errors);
    if (s < priced.transfers.size()) errors.add_alone(path.transfers[s] * priced.transfers[s].error);
  }
  const auto end = static_cast<std::size_t>(path.end_stage);
  errors.add_alone(priced.times[end].exposed_sync() * sync_relative_error(tables, priced.shapes[end]));
  errors.add_alone(calibration.residual_sigma * iteration_ms);
  return std::sqrt(errors.variance() + calibration_variance(calibration, shares));
}

}  // namespace trimtab::tuner
