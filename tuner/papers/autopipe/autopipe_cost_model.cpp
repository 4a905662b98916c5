#include "papers/autopipe_cost_model.hpp"

#include <algorithm>
#include <utility>

#include "native/step/priced_plan.hpp"
#include "papers/answers/answers.hpp"
#include "solvers/autopipe/critical_path.hpp"

namespace trimtab::tuner {
namespace {

using autopipe::Part;
using autopipe::Pipeline;
using autopipe::PipelineAction;

// The plan without its slices: stages cost the same with and without, and the native model may not price slices.
Plan whole(Plan plan) {
  plan.schedule.sliced_microbatches = 0;
  return plan;
}

// A plan's stages under the recurrences, with every action's begin.
class Step {
 public:
  Step(const AutopipeCostModel& model, const Plan& plan)
      : priced_(price(model.native().table().tables(), model.native().calibration(), whole(plan))) {
    for (const PipelineStage& stage : priced_.pipeline) {
      forward_.push_back(stage.forward);
      backward_.push_back(stage.backward);
      transfer_.push_back(stage.transfer);
    }
    pipeline_ = {forward_.data(),
                 backward_.data(),
                 transfer_.data(),
                 static_cast<std::int32_t>(forward_.size()),
                 plan.microbatches(),
                 model.transfers(),
                 plan.schedule.sliced_microbatches};
    autopipe::PipelineTimes scratch;
    recorded_.record(pipeline_, scratch);
  }
  Step(const Step&) = delete;  // the pipeline is a view of this
  Step& operator=(const Step&) = delete;

  [[nodiscard]] const PricedPlan& priced() const { return priced_; }
  [[nodiscard]] const Pipeline& pipeline() const { return pipeline_; }
  [[nodiscard]] const autopipe::RecordedPipeline& recorded() const { return recorded_; }
  [[nodiscard]] double end() const { return recorded_.end(); }
  [[nodiscard]] std::int32_t stages() const { return pipeline_.stages; }
  [[nodiscard]] std::int32_t microbatches() const { return pipeline_.microbatches; }
  [[nodiscard]] bool blocking() const { return pipeline_.transfers == Transfers::kBlocking; }
  [[nodiscard]] double hop_before(std::int32_t x) const { return x > 0 ? transfer_[x - 1] : 0; }
  [[nodiscard]] double hop_after(std::int32_t x) const { return x + 1 < stages() ? transfer_[x] : 0; }

  // What the stage's own transfers hold it up in a step, where they block.
  [[nodiscard]] double held(std::int32_t x) const {
    if (!blocking()) return 0;
    const std::int32_t meetings = microbatches() + pipeline_.warmup(x);
    const std::int32_t in = pipeline_.warmup(x) < microbatches() ? meetings - 1 : meetings - 2;
    return hop_after(x) * meetings + hop_before(x) * in;
  }

 private:
  PricedPlan priced_;
  std::vector<double> forward_, backward_, transfer_;
  Pipeline pipeline_;
  autopipe::RecordedPipeline recorded_;
};

StagePrediction predict_stage(const Step& step, std::int32_t x) {
  const auto s = static_cast<std::size_t>(x);
  const StageTimes& times = step.priced().times[s];
  const double microbatches = step.microbatches();
  StagePrediction stage;
  stage.forward_ms = times.forward;
  stage.backward_ms = times.backward;
  stage.recompute_ms = times.recompute;
  stage.exposed_communication_ms = step.held(x) / microbatches + times.forward_wait + times.backward_wait;
  const double each = stage.forward_ms + stage.backward_ms + stage.recompute_ms + stage.exposed_communication_ms;
  stage.bubble_ms = std::max(0.0, step.end() - microbatches * each);
  set_memory(step.priced().bytes[s], stage);
  return stage;
}

// The input of an action from a neighbour, drawn on the stage that takes it.
TimelineEvent transfer_event(const Step& step, std::int32_t x, std::int32_t k, double begin, double sent, double hop) {
  const double from = step.blocking() ? begin - hop : sent;
  return {x, EventKind::kTransfer, k, from, from + hop};
}

class Timeline {
 public:
  explicit Timeline(const Step& step) : step_(step) {}

  std::vector<TimelineEvent> events() {
    for (std::int32_t x = 0; x < step_.stages(); ++x) {
      const auto first = static_cast<std::ptrdiff_t>(events_.size());
      for (std::int32_t k = 0; k < step_.microbatches(); ++k) {
        add_forward(x, k);
        add_backward(x, k);
      }
      std::stable_sort(events_.begin() + first, events_.end(),
                       [](const TimelineEvent& a, const TimelineEvent& b) { return a.begin_ms < b.begin_ms; });
    }
    return std::move(events_);
  }

 private:
  [[nodiscard]] bool in_halves(std::int32_t x, std::int32_t k) const {
    return k < step_.pipeline().sliced && k <= step_.pipeline().warmup(x);
  }
  [[nodiscard]] double half_of(std::int32_t x) const {
    return step_.pipeline().forward[x] * step_.pipeline().half_slowdown / 2;
  }
  [[nodiscard]] double forward_end(std::int32_t x, std::int32_t k) const {
    if (in_halves(x, k)) return step_.recorded().second_half_begin(x, k) + half_of(x);
    return step_.recorded().forward_begin(x, k) + step_.pipeline().forward[x];
  }

  void add_forward(std::int32_t x, std::int32_t k) {
    const double begin = step_.recorded().forward_begin(x, k);
    const double hop = step_.hop_before(x);
    if (!in_halves(x, k)) {
      if (x > 0) events_.push_back(transfer_event(step_, x, k, begin, forward_end(x - 1, k), hop));
      events_.push_back({x, EventKind::kForward, k, begin, forward_end(x, k)});
      return;
    }
    const double second = step_.recorded().second_half_begin(x, k);
    if (x > 0) {
      const double first_sent = step_.recorded().forward_begin(x - 1, k) + half_of(x - 1);
      events_.push_back(transfer_event(step_, x, k, begin, first_sent, hop / 2));
      events_.push_back(transfer_event(step_, x, k, second, forward_end(x - 1, k), hop / 2));
    }
    events_.push_back({x, EventKind::kForward, k, begin, begin + half_of(x)});
    events_.push_back({x, EventKind::kForward, k, second, second + half_of(x)});
  }

  // Operators are recomputed one by one between backwards; the picture shows all of it first.
  void add_backward(std::int32_t x, std::int32_t k) {
    const double begin = step_.recorded().backward_begin(x, k);
    if (x + 1 < step_.stages()) {
      const double sent = step_.recorded().backward_begin(x + 1, k) + step_.pipeline().backward[x + 1];
      events_.push_back(transfer_event(step_, x, k, begin, sent, step_.hop_after(x)));
    }
    const double again = step_.priced().times[x].recompute;
    if (again > 0) events_.push_back({x, EventKind::kRecompute, k, begin, begin + again});
    events_.push_back({x, EventKind::kBackward, k, begin + again, begin + step_.pipeline().backward[x]});
  }

  const Step& step_;
  std::vector<TimelineEvent> events_;
};

}  // namespace

AutopipeCostModel::AutopipeCostModel(CostTable table, Transfers transfers)
    : native_(std::move(table)), transfers_(transfers) {}

std::string_view AutopipeCostModel::name() const {
  return transfers_ == Transfers::kEager ? "autopipe:eager" : "autopipe:blocking";
}

std::unique_ptr<CostModel> AutopipeCostModel::on(const Cluster& cluster) const {
  return std::make_unique<AutopipeCostModel>(native_.table().on(cluster), transfers_);
}

Prediction AutopipeCostModel::evaluate(const Plan& plan) const {
  const Step step(*this, plan);
  Prediction prediction;
  for (std::int32_t x = 0; x < step.stages(); ++x) prediction.stages.push_back(predict_stage(step, x));
  prediction.iteration_ms = prediction.interval_low_ms = prediction.interval_high_ms = step.end();
  for (const PipelineAction& action : critical_path(step.pipeline(), step.recorded())) {
    prediction.computation_share_ms += action.end - action.begin;
  }
  prediction.communication_share_ms = std::max(0.0, step.end() - prediction.computation_share_ms);
  const std::int32_t master = master_stage(step.pipeline(), step.recorded());
  const StagePrediction& of = prediction.stages[master];
  const double computing = of.forward_ms + of.backward_ms + of.recompute_ms;
  papers::name_bottleneck(static_cast<std::size_t>(master), of.exposed_communication_ms > computing, prediction);
  prediction.missing_costs.assign(step.priced().names.missing.begin(), step.priced().names.missing.end());
  prediction.estimated_costs.assign(step.priced().names.estimated.begin(), step.priced().names.estimated.end());
  if (step.priced().names.time_missing) {
    prediction.take_price_away();
    return prediction;
  }
  const std::int32_t worst = worst_memory_stage(step.priced());
  if (worst < 0) return prediction;
  papers::exceed(static_cast<std::size_t>(worst),
                 describe_excess(native_.table().tables(), native_.calibration(), whole(plan), step.priced(), worst),
                 prediction);
  return prediction;
}

std::vector<TimelineEvent> AutopipeCostModel::timeline(const Plan& plan) const {
  const Step step(*this, plan);
  return Timeline(step).events();
}

StepPath AutopipeCostModel::step_path(const Plan& plan) const {
  const Step step(*this, plan);
  StepPath path;
  path.master_stage = master_stage(step.pipeline(), step.recorded());
  for (const PipelineAction& action : critical_path(step.pipeline(), step.recorded())) {
    path.actions.push_back({action.stage, action.forward ? EventKind::kForward : EventKind::kBackward,
                            action.microbatch, action.begin, action.end});
  }
  std::reverse(path.actions.begin(), path.actions.end());
  return path;
}

std::vector<std::string> AutopipeCostModel::unpriced(const Plan& plan) const {
  std::vector<std::string> names;
  const Schedule& schedule = plan.schedule;
  if (schedule.kind != ScheduleKind::k1F1B) names.emplace_back("schedule.kind (only 1f1b is priced)");
  const auto deepest = static_cast<std::int32_t>(plan.stages.size()) - 1;
  if (schedule.sliced_microbatches > deepest) {
    names.push_back("schedule.sliced_microbatches above " + std::to_string(deepest) +
                    ", the microbatches of the first stage's warm-up");
  }
  papers::name_sub_batches(schedule, names);
  papers::name_late_recompute(schedule, names);
  papers::each_segment(plan, [&](const Segment& segment, const std::string& at) {
    if (segment.cp > 1) names.push_back(at + "cp");
    if (segment.sharded != ShardedLevel::kNone) names.push_back(at + "sharded");
    if (segment.switches != Switches{}) names.push_back(at + "switches");
    if (!segment.tp_consecutive) names.push_back(at + "tp_consecutive");
  });
  return names;
}

}  // namespace trimtab::tuner
