#include "native/bounds/lower_bound.hpp"
#include "native/step/uncertainty.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kSigmasOf95Percent = 1.96;

// The reductions of tied parameters that the stage takes part in, without its wait for the others.
double tied_ms(const PricedPlan& priced, const RecordedStep& step, std::size_t s) {
  const auto stage = static_cast<std::int32_t>(s);
  double ms = 0;
  for (const TiedReductions::Reduction& tie : priced.ties.reductions) {
    for (std::int32_t m = tie.begin; m < tie.end; ++m) ms += priced.ties.members[m] == stage ? tie.ms : 0;
  }
  const double begin = step.backward_begin[step.at(stage, step.microbatches - 1)];
  const PipelineStage& of = priced.pipeline[s];
  return std::min(ms, std::max(0.0, step.synchronized[s] - begin - of.tail + of.after));
}

// What a step's halves take beyond whole forwards; negative where they take less.
double sliced_ms(const PricedPlan& priced, std::size_t s) {
  if (priced.sliced_microbatches == 0) return 0;
  const std::int32_t halved =
      sliced_forwards(priced.sliced_microbatches, static_cast<std::int32_t>(priced.pipeline.size()),
                      static_cast<std::int32_t>(s), priced.microbatches);
  return halved * (2 * priced.halves[s].forward - priced.pipeline[s].forward);
}

// As a rank measures them, who sees its last pass computing for longer where gradients are summed beside it.
StepTerms terms_of(const Calibration& calibration, const PricedPlan& priced, const RecordedStep& step,
                   const StagePrediction& stage, std::size_t s) {
  const StageTimes& times = priced.times[s];
  const StageInputs& inputs = priced.inputs[s];
  const double waits = std::max(0.0, priced.microbatches * (times.forward_wait + times.backward_wait));
  double changes = 0;
  for (const double ms : inputs.change_forward) changes += ms;
  for (const double ms : inputs.change_backward) changes += ms;
  changes *= priced.microbatches * calibration.moving(CommunicationClass::kCollectives);
  const double slowed = std::max(0.0, times.last_backward - times.backward_pass());
  StepTerms terms;
  terms.computation_ms = priced.microbatches * (stage.forward_ms + stage.backward_ms + stage.recompute_ms) +
                         stage.optimizer_ms - times.update_wait + slowed;
  terms.collectives_ms = priced.sub_batches && !inputs.gathers ? waits : std::min(waits, changes);
  terms.gradients_ms = waits - terms.collectives_ms + std::max(0.0, stage.gradient_sync_ms - slowed);
  terms.transfers_ms = step.received[s];
  terms.launching_ms = step.issuing[s] + times.update_wait;
  return terms;
}

// What a stage waits for others takes its part of a bubble that calibration makes longer or shorter.
void stretch_waits(double simulated_ms, double step_ms, StepTerms& terms) {
  const double waits = simulated_ms - (terms.total_ms() - terms.transfers_ms);
  if (step_ms == simulated_ms || waits <= 0) return;
  terms.transfers_ms *= std::max(0.0, 1 + (step_ms - simulated_ms) / waits);
}

// Every millisecond of the step belongs to one term of each stage; what is left is bubble.
StagePrediction predict_stage(const Calibration& calibration, const PricedPlan& priced, const RecordedStep& step,
                              std::size_t s) {
  const StageTimes& times = priced.times[s];
  const double microbatches = priced.microbatches;
  StagePrediction stage;
  // Halves are part of the mean over all microbatches.
  stage.forward_ms = times.forward + sliced_ms(priced, s) / microbatches;
  stage.backward_ms = times.backward;
  stage.recompute_ms = times.recompute;
  stage.exposed_communication_ms = step.exposed[s] / microbatches + times.forward_wait + times.backward_wait;
  stage.gradient_sync_ms = std::max(0.0, times.exposed_sync()) + priced.straggler_waits[s] + tied_ms(priced, step, s);
  stage.optimizer_ms = times.optimizer;
  stage.terms = terms_of(calibration, priced, step, stage, s);
  set_memory(priced.bytes[s], stage);
  stage.memory_bytes = static_cast<Bytes>(std::llround(priced.device_bytes[s]));
  return stage;
}

// What no stage on the same devices does. Where calibration makes the bubble shorter than simulated, waits for data
// that fell into it are shorter, too.
void set_bubbles(const PricedPlan& priced, double step_ms, std::vector<StagePrediction>& stages) {
  const auto seats = static_cast<std::size_t>(priced.seats);
  std::vector<double> busy(seats, 0.0);
  std::vector<double> exposed(seats, 0.0);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StagePrediction& of = stages[s];
    const double each = of.forward_ms + of.backward_ms + of.recompute_ms + of.exposed_communication_ms;
    busy[s % seats] += priced.microbatches * each + of.gradient_sync_ms + of.optimizer_ms;
    exposed[s % seats] += priced.microbatches * of.exposed_communication_ms;
  }
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const double left = step_ms - busy[s % seats];
    stages[s].bubble_ms = std::max(0.0, left);
    const double waits = exposed[s % seats];
    if (left < 0 && waits > 0) stages[s].exposed_communication_ms *= std::max(0.0, 1 + left / waits);
  }
}

// The stage with the least bubble, and what it spends more on. Its host may take longer to issue all that.
Bottleneck time_bottleneck(const PricedPlan& priced, const std::vector<StagePrediction>& stages) {
  const std::int32_t microbatches = priced.microbatches;
  const auto busiest =
      std::ranges::min_element(stages, [](const auto& a, const auto& b) { return a.bubble_ms < b.bubble_ms; });
  const double computing =
      microbatches * (busiest->forward_ms + busiest->backward_ms + busiest->recompute_ms) + busiest->optimizer_ms;
  const double communicating = microbatches * busiest->exposed_communication_ms + busiest->gradient_sync_ms;
  const auto stage = static_cast<std::int32_t>(busiest - stages.begin());
  if (microbatches * priced.times[stage].launches.both() > computing + communicating) return {stage, "launches"};
  return {stage, communicating > computing ? "communication" : "computation"};
}

void add_step_events(const PricedPlan& priced, const RecordedStep& step, std::int32_t s,
                     std::vector<TimelineEvent>& events) {
  const auto stage = static_cast<std::size_t>(s);
  const StageTimes& times = priced.times[stage];
  const double begin = step.backward_begin[step.at(s, step.microbatches - 1)];
  const double computed = begin + times.last_backward;
  const double synchronized = step.synchronized[stage];
  const bool tied = !priced.ties.reductions.empty();
  if ((times.sync_end > 0 || tied) && synchronized > computed * (1 + 1e-12)) {
    events.push_back({s, EventKind::kGradientSync, -1, computed, synchronized});
  }
  const double optimizer = step.optimizer_begin.empty() ? synchronized : step.optimizer_begin[stage];
  const double optimized = optimizer + times.optimizer;
  if (times.optimizer > 0) events.push_back({s, EventKind::kOptimizer, -1, optimizer, optimized});
  if (times.gather_after > 0) {
    events.push_back({s, EventKind::kGradientSync, -1, optimized, optimized + times.gather_after});
  }
}

double forward_end(const PricedPlan& priced, const RecordedStep& step, std::int32_t s, std::int32_t k) {
  if (step.halves(s, k)) return step.second_begin[step.at_half(s, k)] + priced.halves[s].forward;
  return step.forward_begin[step.at(s, k)] + priced.pipeline[s].forward;
}

// The input of a forward from the stage before, or of a backward from the stage after.
TimelineEvent transfer_event(const PricedPlan& priced, const RecordedStep& step, std::int32_t s, std::int32_t k,
                             bool forward) {
  if (priced.transfers_meet) {
    const StepNode& input = (forward ? step.forward_inputs : step.backward_inputs)[step.at(s, k)];
    return {s, EventKind::kTransfer, k, input.begin, input.end};
  }
  const std::int32_t sender = forward ? s - 1 : s + 1;
  const PipelineStage& from = priced.pipeline[sender];
  const bool last = k == step.microbatches - 1;
  const double sent = forward ? forward_end(priced, step, sender, k)
                              : step.backward_begin[step.at(sender, k)] + (last ? from.last_backward : from.backward);
  return {s, EventKind::kTransfer, k, sent, sent + priced.pipeline[forward ? sender : s].transfer};
}

// A forward and what it waited for.
void add_forward_events(const PricedPlan& priced, const RecordedStep& step, std::int32_t s, std::int32_t k,
                        std::vector<TimelineEvent>& events) {
  const double first = step.forward_begin[step.at(s, k)];
  if (!step.halves(s, k)) {
    events.push_back({s, EventKind::kForward, k, first, first + priced.pipeline[s].forward});
    if (s > 0) events.push_back(transfer_event(priced, step, s, k, true));
    return;
  }
  const double second = step.second_begin[step.at_half(s, k)];
  for (const double begin : {first, second}) {
    events.push_back({s, EventKind::kForward, k, begin, begin + priced.halves[s].forward});
  }
  if (s == 0) return;
  const HalfPass& from = priced.halves[s - 1];
  for (const double begin : {step.forward_begin[step.at(s - 1, k)], step.second_begin[step.at_half(s - 1, k)]}) {
    const double sent = begin + from.forward;
    events.push_back({s, EventKind::kTransfer, k, sent, sent + from.transfer});
  }
}

void add_pass_events(const PricedPlan& priced, const RecordedStep& step, std::int32_t s,
                     std::vector<TimelineEvent>& events) {
  const PipelineStage& times = priced.pipeline[s];
  const double recompute = priced.times[s].recompute;
  for (std::int32_t k = 0; k < step.microbatches; ++k) {
    const double backward = step.backward_begin[step.at(s, k)];
    const bool last = k == step.microbatches - 1;
    add_forward_events(priced, step, s, k, events);
    // Operators are recomputed one by one between backwards; the picture shows all of it first.
    if (recompute > 0) events.push_back({s, EventKind::kRecompute, k, backward, backward + recompute});
    events.push_back(
        {s, EventKind::kBackward, k, backward + recompute, backward + (last ? times.last_backward : times.backward)});
    if (s + 1 < static_cast<std::int32_t>(priced.pipeline.size())) {
      events.push_back(transfer_event(priced, step, s, k, false));
    }
  }
}

void judge(const CostTable::Tables& tables, const Calibration& calibration, const Plan& plan, const PricedPlan& priced,
           Prediction& prediction) {
  const std::int32_t worst = worst_memory_stage(priced);
  if (worst < 0) {
    prediction.bottleneck = time_bottleneck(priced, prediction.stages);
    return;
  }
  prediction.feasible = false;
  prediction.bottleneck = {worst, "memory"};
  prediction.infeasible_reason = describe_excess(tables, calibration, plan, priced, worst);
}

class BoundedEvaluator final : public NativeEvaluator {
 public:
  BoundedEvaluator(const NativeCostModel& cost_model, const PlanSpace& space)
      : NativeEvaluator(cost_model, space), bounds_(cost_model, *this) {}
  Bounds* bounds() override { return &bounds_; }

 private:
  NativeBounds bounds_;
};

}  // namespace

NativeCostModel::NativeCostModel(CostTable table, Calibration calibration)
    : table_(std::move(table)), calibration_(std::move(calibration)) {
  if (calibration_.operators.empty() && calibration_.memory.value == 1) return;
  std::map<std::string, double> factors;
  for (const auto& [key, factor] : calibration_.operators) factors.emplace(key, factor.value);
  table_ = table_.scaled(factors, calibration_.memory.value);
}

std::unique_ptr<CostModel> NativeCostModel::on(const Cluster& cluster) const {
  auto model = std::make_unique<NativeCostModel>(*this);
  model->table_ = table_.on(cluster);
  return model;
}

NativeCostModel NativeCostModel::under(const Calibration& times) const {
  NativeCostModel model = *this;
  model.calibration_ = times;
  return model;
}

std::vector<std::string> NativeCostModel::unpriced(const Plan& plan) const {
  return unpriced_features(plan);
}

Prediction NativeCostModel::evaluate(const Plan& plan) const {
  const CostTable::Tables& tables = table_.tables();
  PricedPlan priced = price(tables, calibration_, plan);
  const RecordedStep step = record_step(priced);
  const CriticalPath path = critical_path(priced, step);
  const Shares shares = critical_shares(calibration_, priced, step, path, bubble_of(calibration_, priced));
  Prediction prediction;
  prediction.iteration_ms = shares.step_ms + tables.step_overhead_ms + calibration_.fixed_ms;
  prediction.computation_share_ms = shares.computation_ms;
  prediction.communication_share_ms = shares.communication_ms;
  prediction.communication_shares = shares.by_class;
  prediction.overlap_share_ms = shares.overlap_ms;
  prediction.bubble_share_ms = shares.bubble_ms;
  prediction.launch_share_ms = shares.issuing_ms;
  const double sigma = step_sigma(tables, calibration_, priced, path, shares, prediction.iteration_ms);
  prediction.interval_low_ms = std::max(0.0, prediction.iteration_ms - kSigmasOf95Percent * sigma);
  prediction.interval_high_ms = prediction.iteration_ms + kSigmasOf95Percent * sigma;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    prediction.stages.push_back(predict_stage(calibration_, priced, step, s));
    StepTerms& terms = prediction.stages.back().terms;
    stretch_waits(step.end_ms, shares.step_ms, terms);
    terms.idle_ms = std::max(0.0, prediction.iteration_ms - terms.total_ms());
    terms.launching_ms = std::min(terms.launching_ms, terms.idle_ms);
  }
  set_bubbles(priced, shares.step_ms, prediction.stages);
  prediction.missing_costs.assign(priced.names.missing.begin(), priced.names.missing.end());
  prediction.estimated_costs.assign(priced.names.estimated.begin(), priced.names.estimated.end());
  if (priced.names.time_missing) {
    prediction.take_price_away();
    const std::int32_t fullest = worst_memory_stage(priced);
    if (fullest >= 0) prediction.bottleneck = {fullest, "memory"};
    return prediction;
  }
  judge(tables, calibration_, plan, priced, prediction);
  if (!priced.names.memory_missing || !prediction.feasible) return prediction;
  prediction.feasible = false;
  prediction.infeasible_reason = "memory that is not known: " + prediction.missing_costs.front();
  return prediction;
}

std::vector<TimelineEvent> NativeCostModel::timeline(const Plan& plan) const {
  const PricedPlan priced = price(table_.tables(), calibration_, plan);
  const RecordedStep step = record_step(priced);
  std::vector<TimelineEvent> events;
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(priced.pipeline.size()); ++s) {
    const auto stage_begin = static_cast<std::ptrdiff_t>(events.size());
    add_pass_events(priced, step, s, events);
    add_step_events(priced, step, s, events);
    std::stable_sort(events.begin() + stage_begin, events.end(),
                     [](const TimelineEvent& a, const TimelineEvent& b) { return a.begin_ms < b.begin_ms; });
  }
  return events;
}

std::vector<std::string> NativeCostModel::rests_on(const Plan& plan) const {
  const CostTable::Tables& tables = table_.tables();
  return basis_lines(*tables.bases, price(tables, calibration_, plan).names);
}

StepPath NativeCostModel::step_path(const Plan& plan) const {
  const PricedPlan priced = price(table_.tables(), calibration_, plan);
  return tuner::step_path(priced, record_step(priced));
}

std::unique_ptr<Evaluator> NativeCostModel::evaluator(const PlanSpace& space) const {
  return std::make_unique<BoundedEvaluator>(*this, space);
}

}  // namespace trimtab::tuner
