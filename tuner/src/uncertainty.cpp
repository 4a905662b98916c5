#include "uncertainty.hpp"

#include <algorithm>
#include <cmath>

#include "sequence_costs.hpp"

namespace trimtab::tuner {
namespace {

// Times of a stage are linear in the all-reduces between the points where an overlap changes its form, so a small step
// gives the slope exactly up to rounding.
constexpr double kSlopeStep = 1e-6;

// Of a stage's times, by the logarithm of communication's factor.
struct Slopes {
  double forward = 0;
  double backward = 0;
  double last_backward = 0;
  double tail = 0;
  double after = 0;  // of the tail, what follows the reduction of tied parameters
};

double half_slope_of(const Calibration& slower, const PricedPlan& priced, std::size_t s, const OverlapScale& overlap) {
  if (priced.halves.empty() || !priced.half_inputs[s].communicates()) return 0;
  const StageTimes times = stage_times(priced.on_devices(slower, s), priced.half_inputs[s], priced.recompute, overlap);
  return (times.forward_pass() - priced.halves[s].forward) / kSlopeStep;
}

Slopes slopes_of(const Calibration& slower, const PricedPlan& priced, std::size_t s, const OverlapScale& overlap) {
  if (!priced.inputs[s].communicates() && !priced.sub_batches && !priced.switched[s]) return {};
  const StageTimes times = priced.times_under(slower, s, overlap);
  const StageTimes& now = priced.times[s];
  return {(times.forward_pass() - now.forward_pass()) / kSlopeStep,
          (times.backward_pass() - now.backward_pass()) / kSlopeStep,
          (times.last_backward - now.last_backward) / kSlopeStep, (times.tail() - now.tail()) / kSlopeStep,
          (times.gather_after - now.gather_after) / kSlopeStep};
}

// What the path has of a stage's own communication that is slower under `slower`, or of its slowdowns.
double on_path(const Calibration& slower, const PricedPlan& priced, const CriticalPath& path, std::size_t s,
               const OverlapScale& overlap = {}) {
  const Slopes slopes = slopes_of(slower, priced, s, overlap);
  double ms = path.forwards[s] * slopes.forward + path.backwards[s] * slopes.backward +
              path.last_backwards[s] * slopes.last_backward;
  if (path.end_stage == static_cast<std::int32_t>(s)) ms += slopes.tail - slopes.after;
  if (path.last_stage == static_cast<std::int32_t>(s)) ms += slopes.after;
  if (path.half_forwards[s] > 0) ms += path.half_forwards[s] * half_slope_of(slower, priced, s, overlap);
  return ms;
}

Calibration slower_by(Calibration calibration, CommunicationClass of) {
  calibration.classes[static_cast<std::size_t>(of)].value *= 1 + kSlopeStep;
  return calibration;
}

// Adds a stage's own communication. A stage mostly has one class of it, and then nothing more is to be found out.
void add_stage(const Calibration& calibration, const PricedPlan& priced, const CriticalPath& path, std::size_t s,
               Shares& shares) {
  Calibration slower = calibration;
  slower.communication.value *= 1 + kSlopeStep;
  const double all = on_path(slower, priced, path, s);
  shares.communication_ms += all;
  const bool synchronizes = priced.inputs[s].synchronizes;
  const bool changes = priced.sub_batches || !priced.inputs[s].change_forward.empty();
  const auto of_class = [&](CommunicationClass of) { return on_path(slower_by(calibration, of), priced, path, s); };
  const bool several =
      static_cast<int>(synchronizes) + static_cast<int>(changes) + static_cast<int>(priced.switched[s].has_value()) > 1;
  const auto share = [&](CommunicationClass of) { return std::max(0.0, several ? of_class(of) : all); };
  if (synchronizes) shares.by_class.gradients += share(CommunicationClass::kGradients);
  if (changes) shares.by_class.collectives += share(CommunicationClass::kCollectives);
}

// A reduction of tied parameters that stands on the path.
double tied_ms(const PricedPlan& priced, const RecordedStep& step, const CriticalPath& path) {
  if (priced.ties.reductions.empty()) return 0;
  const PipelineStage& end = priced.pipeline[path.end_stage];
  const double alone = step.backward_begin[step.at(path.end_stage, step.microbatches - 1)] + end.tail - end.after;
  return std::max(0.0, step.synchronized[path.last_stage] - alone);
}

// Sums the errors of equal costs before squaring: one wrong cost is wrong wherever it is used.
class ErrorSum {
 public:
  explicit ErrorSum(const CostTable::Tables& tables)
      : groups_(tables.group_names.size()), errors_(groups_ * (tables.operator_tables.size() + 1) * 2, 0.0) {}

  void add(std::size_t table, std::int32_t group, bool backward, double error) {
    errors_[(table * groups_ + static_cast<std::size_t>(group)) * 2 + (backward ? 1 : 0)] += error;
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

// Of a stage's collectives together: one wrong cost is wrong for all of them.
double relative_error(const StageInputs& inputs) {
  const bool buckets = !inputs.buckets.empty();
  double mean = inputs.buckets.mean;
  double error = inputs.change_error + inputs.buckets.error;
  for (std::size_t i = 0; i < inputs.prices.size(); ++i) {
    const OperatorPrice& price = *inputs.prices[i];
    mean += price.gather + (buckets ? 0 : price.scatter + price.last + price.after);
    error += buckets ? 0 : price.link_error;
  }
  for (const double change : inputs.change_forward) mean += change;
  for (const double change : inputs.change_backward) mean += change;
  return mean > 0 ? error / mean : 0;
}

bool alternates(const StageShape& shape, std::int32_t i) {
  return std::any_of(shape.alternate.begin(), shape.alternate.end(),
                     [i](const Range& range) { return range.contains(i); });
}

std::size_t table_index(const CostTable::Tables& tables, const SplitShape& split, bool alternate) {
  const OperatorTable* const table = &tables.at(split.samples, split.split.tp, alternate);
  if (table == &tables.unknown) return tables.operator_tables.size();
  return static_cast<std::size_t>(table - tables.operator_tables.data());
}

struct PassErrors {
  double forward = 0;
  double backward = 0;
};

PassErrors pass_errors(const CostTable::Tables& tables, const SplitShape& split, bool alternate, std::int32_t group) {
  if (split.shares_sequence()) {
    const OperatorCosts of = costs_under(tables, split, alternate, group);
    return {of.forward.error, of.backward.error};
  }
  const OperatorCosts& of = tables.at(split.samples, split.split.tp, alternate).of_group[group];
  return {of.forward.error, of.backward.error};
}

void add_half_errors(const CostTable::Tables& tables, const StageShape& shape, double halves, ErrorSum& errors) {
  for (const SegmentShape& segment : shape.segments) {
    for (std::int32_t i = segment.operators.begin; i < segment.operators.end; ++i) {
      const bool alternate = alternates(shape, i);
      const std::int32_t group = tables.group_of[i];
      const PassErrors of = pass_errors(tables, segment.split, alternate, group);
      errors.add(table_index(tables, segment.split, alternate), group, false, halves * of.forward);
    }
  }
}

void add_stage_errors(const CostTable::Tables& tables, const Calibration& calibration, const PricedPlan& priced,
                      const CriticalPath& path, std::size_t s, ErrorSum& errors) {
  const bool ends = path.end_stage == static_cast<std::int32_t>(s);
  const double backwards = path.backwards[s] + path.last_backwards[s] + (ends ? 1 : 0);
  const double factor = calibration.computation.value;
  // In two sub-batches every operator runs twice with half of the samples.
  const StageShape& shape = priced.sub_batches ? priced.half_shapes[s] : priced.shapes[s];
  const double times = priced.sub_batches ? 2 : 1;
  if (path.half_forwards[s] > 0) {
    add_half_errors(tables, priced.half_shapes[s], path.half_forwards[s] * factor, errors);
  }
  for (const SegmentShape& segment : shape.segments) {
    for (std::int32_t i = segment.operators.begin; i < segment.operators.end; ++i) {
      const bool alternate = alternates(shape, i);
      const std::size_t table = table_index(tables, segment.split, alternate);
      const std::int32_t group = tables.group_of[i];
      const PassErrors of = pass_errors(tables, segment.split, alternate, group);
      const double forwards = path.forwards[s] + (priced.recompute[i] != 0 ? backwards : 0);
      errors.add(table, group, false, times * forwards * of.forward * factor);
      errors.add(table, group, true, times * backwards * of.backward * factor);
    }
  }
}

}  // namespace

Shares critical_shares(const Calibration& calibration, const PricedPlan& priced, const RecordedStep& step,
                       const CriticalPath& path) {
  Shares shares;
  shares.communication_ms = shares.by_class.gradients = tied_ms(priced, step, path);
  for (std::size_t s = 0; s < priced.shapes.size(); ++s) {
    double sent = path.transfers[s] * priced.pipeline[s].transfer;
    if (path.half_transfers[s] > 0) sent += path.half_transfers[s] * priced.halves[s].transfer;
    shares.communication_ms += sent;
    shares.by_class.transfers += sent;
    add_stage(calibration, priced, path, s, shares);
  }
  shares.communication_ms = std::clamp(shares.communication_ms, 0.0, step.end_ms);
  shares.computation_ms = step.end_ms - shares.communication_ms;
  return shares;
}

double step_sigma(const CostTable::Tables& tables, const Calibration& calibration, const PricedPlan& priced,
                  const CriticalPath& path, const Shares& shares, double iteration_ms) {
  ErrorSum errors(tables);
  for (std::size_t s = 0; s < priced.shapes.size(); ++s) {
    add_stage_errors(tables, calibration, priced, path, s, errors);
    const StageTimes& times = priced.times[s];
    const double waits = path.forwards[s] * times.forward_wait + path.backwards[s] * times.backward_wait;
    if (waits > 0) errors.add_alone(waits * relative_error(priced.inputs[s]));
    if (s < priced.transfers.size()) errors.add_alone(path.transfers[s] * priced.transfers[s].error);
    // All slowdowns of a stage together: those of one communication are wrong in one direction.
    if (priced.inputs[s].slows_down) errors.add_alone(on_path(calibration, priced, path, s, {1, kSlopeStep}));
  }
  const auto end = static_cast<std::size_t>(path.end_stage);
  errors.add_alone(priced.times[end].exposed_sync() * relative_error(priced.inputs[end]));
  errors.add_alone(calibration.residual_sigma * iteration_ms);
  const TimeSlopes slopes{shares.computation_ms,       shares.communication_ms,   1,
                          shares.by_class.collectives, shares.by_class.gradients, shares.by_class.transfers};
  return std::sqrt(errors.variance() + std::max(0.0, covariance(calibration, slopes, slopes)));
}

}  // namespace trimtab::tuner
