#include "native/step/uncertainty.hpp"

#include "native/stage/sequence_costs.hpp"

namespace trimtab::tuner {
namespace {

// Times of a stage are linear in the all-reduces between the points where an overlap changes its form, so a small step
// gives the slope exactly up to rounding.
constexpr double kSlopeStep = 1e-6;

// Of what is hidden: published slowdowns of both sides lie between 1.1 and 1.3 (Galvatron's profiles).
constexpr double kDoubtOfOverlap = 0.2;

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

// What the path has of times that are longer under `slower`, or of larger slowdowns.
double on_path(const Slopes& slopes, const Calibration& slower, const PricedPlan& priced, const CriticalPath& path,
               std::size_t s, const OverlapScale& overlap = {}) {
  double ms = path.forwards[s] * slopes.forward + path.backwards[s] * slopes.backward +
              path.last_backwards[s] * slopes.last_backward;
  if (path.end_stage == static_cast<std::int32_t>(s)) {
    ms += slopes.tail - slopes.after - (path.end_issued ? slopes.last_backward : 0);
  }
  if (path.last_stage == static_cast<std::int32_t>(s)) ms += slopes.after;
  if (path.half_forwards[s] > 0) ms += path.half_forwards[s] * half_slope_of(slower, priced, s, overlap);
  return ms;
}

// The same of the busiest stage.
double on_busiest(const Slopes& slopes, const PricedPlan& priced, const BusiestSeat& busiest, std::size_t s) {
  if (static_cast<std::int32_t>(s) % priced.seats != busiest.seat) return 0;
  if (busiest.issuing_ms > 0) return slopes.tail - slopes.last_backward;
  return priced.microbatches * slopes.forward + (priced.microbatches - 1) * slopes.backward + slopes.tail;
}

// The critical path, and what a bubble's factor adds to it.
double in_step(const Calibration& slower, const PricedPlan& priced, const CriticalPath& path, const Bubble& bubble,
               std::size_t s) {
  const Slopes slopes = slopes_of(slower, priced, s, {});
  const double ms = on_path(slopes, slower, priced, path, s);
  if (bubble.stretch == 0) return ms;
  return ms + bubble.stretch *
                  (on_path(slopes, slower, priced, bubble.path, s) - on_busiest(slopes, priced, bubble.busiest, s));
}

Calibration slower_by(Calibration calibration, CommunicationClass of) {
  calibration.classes[static_cast<std::size_t>(of)].value *= 1 + kSlopeStep;
  return calibration;
}

// Adds a stage's own communication. A stage mostly has one class of it, and then nothing more is to be found out.
void add_stage(const Calibration& calibration, const PricedPlan& priced, const CriticalPath& path, const Bubble& bubble,
               std::size_t s, Shares& shares) {
  Calibration slower = calibration;
  slower.communication.value *= 1 + kSlopeStep;
  const double all = in_step(slower, priced, path, bubble, s);
  shares.communication_ms += all;
  const bool synchronizes = priced.inputs[s].synchronizes;
  const bool changes = priced.sub_batches || !priced.inputs[s].change_forward.empty();
  const auto of_class = [&](CommunicationClass of) {
    return in_step(slower_by(calibration, of), priced, path, bubble, s);
  };
  const bool several =
      static_cast<int>(synchronizes) + static_cast<int>(changes) + static_cast<int>(priced.switched[s].has_value()) > 1;
  const auto share = [&](CommunicationClass of) { return std::max(0.0, several ? of_class(of) : all); };
  if (synchronizes) shares.by_class.gradients += share(CommunicationClass::kGradients);
  if (changes) shares.by_class.collectives += share(CommunicationClass::kCollectives);
  if (!priced.inputs[s].slows_down) return;
  slower = calibration;
  slower.overlap.value *= 1 + kSlopeStep;
  shares.overlap_ms += std::max(0.0, in_step(slower, priced, path, bubble, s));
}

double issuing_ms(const CriticalPath& path) {
  return std::accumulate(path.issuing.begin(), path.issuing.end(), 0.0);
}

// A reduction of tied parameters that stands on the path.
double tied_ms(const PricedPlan& priced, const RecordedStep& step, const CriticalPath& path) {
  if (priced.ties.reductions.empty()) return 0;
  const PipelineStage& end = priced.pipeline[path.end_stage];
  const double alone = step.backward_begin[step.at(path.end_stage, step.microbatches - 1)] + end.tail - end.after;
  return std::max(0.0, step.synchronized[path.last_stage] - alone);
}

// Sums the errors of equal costs before squaring: one wrong cost is wrong wherever it is used. Estimates rest on one
// assumption, that what was not measured is like what was, and are wrong together.
class ErrorSum {
 public:
  explicit ErrorSum(const CostTable::Tables& tables)
      : groups_(tables.group_names.size()),
        errors_(groups_ * (tables.operator_tables.size() + 1) * 2, 0.0),
        updates_(groups_, 0.0) {}

  // Of `times` uses of a pass.
  void add(std::size_t table, std::int32_t group, bool backward, const Value& pass, double times) {
    if (pass.quality == Quality::kEstimated) return add_estimated(times * pass.error);
    errors_[(table * groups_ + static_cast<std::size_t>(group)) * 2 + (backward ? 1 : 0)] += times * pass.error;
  }
  // Of an update that takes `ms` in this step.
  void add_update(std::int32_t group, const Value& update, double ms) {
    if (update.mean <= 0) return;
    const double error = ms * update.error / update.mean;
    if (update.quality == Quality::kEstimated) return add_estimated(error);
    updates_[static_cast<std::size_t>(group)] += error;
  }
  void add_alone(double error) { squares_ += error * error; }
  void add_estimated(double error) { estimated_ += error; }
  [[nodiscard]] double variance() const {
    double sum = squares_ + estimated_ * estimated_;
    for (const double error : errors_) sum += error * error;
    for (const double error : updates_) sum += error * error;
    return sum;
  }

 private:
  std::size_t groups_;
  std::vector<double> errors_;
  std::vector<double> updates_;
  double squares_ = 0;
  double estimated_ = 0;
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

std::size_t table_index(const CostTable::Tables& tables, const SplitShape& split, bool alternate) {
  const OperatorTable* const table = &tables.at(split.samples, split.split.tp, alternate);
  if (table == &tables.unknown) return tables.operator_tables.size();
  return static_cast<std::size_t>(table - tables.operator_tables.data());
}

struct PassValues {
  Value forward;
  Value backward;
};

PassValues pass_values(const CostTable::Tables& tables, const SplitShape& split, bool alternate, std::int32_t group) {
  if (split.shares_sequence()) {
    const OperatorCosts of = costs_under(tables, split, alternate, group);
    return {of.forward, of.backward};
  }
  const OperatorCosts& of = tables.at(split.samples, split.split.tp, alternate).of_group[group];
  return {of.forward, of.backward};
}

// use(operator, group, table, passes) for each operator of a stage.
template <typename Use>
void for_each_operator(const CostTable::Tables& tables, const StageShape& shape, Use&& use) {
  for (const SegmentShape& segment : shape.segments) {
    for (std::int32_t i = segment.operators.begin; i < segment.operators.end; ++i) {
      const bool alternate = contains(shape.alternate, i);
      const std::int32_t group = tables.group_of[i];
      use(i, group, table_index(tables, segment.split, alternate),
          pass_values(tables, segment.split, alternate, group));
    }
  }
}

void add_stage_errors(const CostTable::Tables& tables, const Calibration& calibration, const PricedPlan& priced,
                      const CriticalPath& path, std::size_t s, ErrorSum& errors) {
  const bool ends = path.end_stage == static_cast<std::int32_t>(s) && !path.end_issued;
  const double backwards = path.backwards[s] + path.last_backwards[s] + (ends ? 1 : 0);
  const double factor = calibration.computation.value;
  if (path.half_forwards[s] > 0) {
    const auto add_half = [&](std::int32_t, std::int32_t group, std::size_t table, const PassValues& of) {
      errors.add(table, group, false, of.forward, path.half_forwards[s] * factor);
    };
    for_each_operator(tables, priced.half_shapes[s], add_half);
  }
  // In two sub-batches every operator runs twice with half of the samples.
  const double times = priced.sub_batches ? 2 : 1;
  const auto add = [&](std::int32_t i, std::int32_t group, std::size_t table, const PassValues& of) {
    const double forwards = path.forwards[s] + (priced.recompute[i] != 0 ? backwards : 0);
    errors.add(table, group, false, of.forward, times * forwards * factor);
    errors.add(table, group, true, of.backward, times * backwards * factor);
  };
  for_each_operator(tables, priced.sub_batches ? priced.half_shapes[s] : priced.shapes[s], add);
}

// A host that is slower than was measured is slower for all that it issues.
void add_issuing_errors(const PricedPlan& priced, const CriticalPath& path, ErrorSum& errors) {
  double error = 0;
  for (std::size_t s = 0; s < path.issuing.size(); ++s) {
    const Launches& all = priced.times[s].launches;
    if (all.both() > 0) error += path.issuing[s] * all.error / all.both();
  }
  errors.add_alone(error);
}

void add_update_errors(const CostTable::Tables& tables, const Calibration& calibration, const StageInputs& inputs,
                       ErrorSum& errors) {
  for (std::size_t i = 0; i < inputs.prices.size(); ++i) {
    const std::int32_t group = inputs.groups[i];
    errors.add_update(group, tables.optimizer_of_group[group],
                      inputs.prices[i]->optimizer * calibration.computation.value);
  }
}

// Where no slowdown was measured none is assumed: what computing hides of gradients may take so much of itself longer.
void add_overlap_errors(const Calibration& calibration, const StageInputs& inputs, const StageTimes& times,
                        ErrorSum& errors) {
  if (!inputs.synchronizes || inputs.slows_down) return;
  double sent = 0;
  for (const OperatorPrice* const price : inputs.prices) sent += price->scatter + price->last;
  if (!inputs.buckets.empty()) sent = inputs.buckets.mean - inputs.buckets.all_after();
  const double exposed = std::max(0.0, times.exposed_sync() - times.gather_after);
  const double hidden = sent * calibration.moving(CommunicationClass::kGradients) - exposed;
  errors.add_alone(kDoubtOfOverlap * std::max(0.0, hidden));
}

// The same of what one sub-batch's computing hides of the other's all-reduces.
void add_sub_batch_errors(const Calibration& calibration, const PricedPlan& priced, const CriticalPath& path,
                          std::size_t s, ErrorSum& errors) {
  if (!priced.sub_batches) return;
  const auto knows = [](const OperatorPrice* half) {
    return half->sums.sums[0] != nullptr && half->sums.sums[0] != &kNoSlowdowns;
  };
  if (std::ranges::any_of(priced.half_inputs[s].prices, knows)) return;
  double forward = 0;
  double backward = 0;
  for (const OperatorPrice* const half : priced.half_inputs[s].prices) {
    forward += 2 * half->forward_reducing();
    backward += 2 * half->backward_reducing();
  }
  const double moving = calibration.moving(CommunicationClass::kCollectives);
  const StageTimes& times = priced.times[s];
  const double backwards =
      path.backwards[s] + path.last_backwards[s] + (path.end_stage == static_cast<std::int32_t>(s) ? 1 : 0);
  const double hidden = path.forwards[s] * std::max(0.0, forward * moving - times.forward_wait) +
                        backwards * std::max(0.0, backward * moving - times.backward_wait);
  errors.add_alone(kDoubtOfOverlap * hidden);
}

}  // namespace

Bubble bubble_of(const Calibration& calibration, PricedPlan& priced) {
  Bubble bubble;
  if (priced.pipeline.size() < 2) return bubble;
  bubble.stretch = calibration.bubble.value - 1;
  bubble.busiest = busiest_seat(priced.pipeline, priced.seats, priced.microbatches);
  const std::vector<PipelineStage> pipeline = priced.pipeline;
  const std::vector<HalfPass> halves = priced.halves;
  send_at_once(priced.pipeline, priced.halves);
  if (bubble.stretch == 0 && !priced.by_graph()) {
    PipelineScratch scratch;
    bubble.step.end_ms = simulate(priced.pipeline.data(), static_cast<std::int32_t>(priced.pipeline.size()),
                                  priced.microbatches, priced.kind, scratch, priced.ties, priced.sliced());
  } else {
    bubble.step = record_step(priced);
    bubble.path = critical_path(priced, bubble.step);
  }
  priced.pipeline = pipeline;
  priced.halves = halves;
  bubble.ms = bubble_ms(bubble.busiest, bubble.step.end_ms);
  return bubble;
}

Shares critical_shares(const Calibration& calibration, const PricedPlan& priced, const RecordedStep& step,
                       const CriticalPath& path, const Bubble& bubble) {
  Shares shares;
  shares.bubble_ms = calibration.bubble.value * bubble.ms;
  shares.step_ms = step.end_ms + bubble.stretch * bubble.ms;
  shares.communication_ms = tied_ms(priced, step, path);
  if (bubble.stretch != 0) shares.communication_ms += bubble.stretch * tied_ms(priced, bubble.step, bubble.path);
  shares.by_class.gradients = shares.communication_ms;
  for (std::size_t s = 0; s < priced.shapes.size(); ++s) {
    double sent = path.transfers[s] * priced.pipeline[s].transfer;
    if (path.half_transfers[s] > 0) sent += path.half_transfers[s] * priced.halves[s].transfer;
    shares.communication_ms += sent;
    shares.by_class.transfers += sent;
    add_stage(calibration, priced, path, bubble, s, shares);
  }
  shares.communication_ms = std::clamp(shares.communication_ms, 0.0, shares.step_ms);
  shares.computation_ms = shares.step_ms - shares.communication_ms;
  shares.issuing_ms = issuing_ms(path);
  const StageTimes& last = priced.times[path.last_stage];
  if (last.launches.update > 0 && last.launches.update >= last.optimizer) shares.issuing_ms += last.optimizer;
  if (bubble.stretch != 0) shares.issuing_ms += bubble.stretch * (issuing_ms(bubble.path) - bubble.busiest.issuing_ms);
  shares.issuing_ms = std::clamp(shares.issuing_ms, 0.0, shares.computation_ms);
  shares.computation_ms -= shares.issuing_ms;
  return shares;
}

double step_sigma(const CostTable::Tables& tables, const Calibration& calibration, const PricedPlan& priced,
                  const CriticalPath& path, const Shares& shares, double iteration_ms) {
  ErrorSum errors(tables);
  for (std::size_t s = 0; s < priced.shapes.size(); ++s) {
    add_stage_errors(tables, calibration, priced, path, s, errors);
    add_sub_batch_errors(calibration, priced, path, s, errors);
    const StageTimes& times = priced.times[s];
    const double waits = path.forwards[s] * times.forward_wait + path.backwards[s] * times.backward_wait;
    if (waits > 0) errors.add_alone(waits * relative_error(priced.inputs[s]));
    if (s < priced.transfers.size()) {
      const double sent = path.transfers[s] * priced.transfers[s].error;
      if (priced.transfers[s].quality == Quality::kEstimated) {
        errors.add_estimated(sent);
      } else {
        errors.add_alone(sent);
      }
    }
    // All slowdowns of a stage together: those of one communication are wrong in one direction.
    if (priced.inputs[s].slows_down) {
      const OverlapScale larger{1, kSlopeStep};
      errors.add_alone(on_path(slopes_of(calibration, priced, s, larger), calibration, priced, path, s, larger));
    }
  }
  add_issuing_errors(priced, path, errors);
  const auto end = static_cast<std::size_t>(path.end_stage);
  errors.add_alone(priced.times[end].exposed_sync() * relative_error(priced.inputs[end]));
  add_update_errors(tables, calibration, priced.inputs[end], errors);
  add_overlap_errors(calibration, priced.inputs[end], priced.times[end], errors);
  errors.add_alone(calibration.residual_sigma * iteration_ms);
  const TimeSlopes slopes{shares.computation_ms,       shares.communication_ms,   1,
                          shares.by_class.collectives, shares.by_class.gradients, shares.by_class.transfers,
                          shares.overlap_ms,           shares.bubble_ms,          shares.issuing_ms};
  return std::sqrt(errors.variance() + std::max(0.0, covariance(calibration, slopes, slopes)));
}

}  // namespace trimtab::tuner
