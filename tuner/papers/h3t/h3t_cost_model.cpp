#include "papers/h3t_cost_model.hpp"

#include <algorithm>

#include "base/units.hpp"
#include "papers/answers/answers.hpp"
#include "papers/h3t/h3t_plan.hpp"
#include "papers/h3t/step_inputs.hpp"
#include "solvers/h3t/problem.hpp"
#include "solvers/h3t/segment_simulator.hpp"

namespace trimtab::tuner {
namespace {

using h3t::ms;
using h3t::Task;

std::int32_t devices_of(const Plan& plan) {
  return plan.stages.front().segments.front().dp;
}

EventKind event_kind(Task task, bool again) {
  if (task == Task::kForwardNoGrad) return EventKind::kForward;
  if (task == Task::kForwardWithGrad) return again ? EventKind::kRecompute : EventKind::kForward;
  if (task == Task::kBackward) return EventKind::kBackward;
  if (task == Task::kOptimizer) return EventKind::kOptimizer;
  const bool gradients = task == Task::kScatterGradients || task == Task::kOffloadGradients;
  return gradients ? EventKind::kGradientSync : EventKind::kTransfer;
}

StagePrediction predict_stage(const h3t::StepInputs& inputs, const h3t::Switching& switches,
                              const h3t::StepOutcome& outcome) {
  StagePrediction stage;
  Bytes resident = 0;
  for (std::size_t i = 0; i < inputs.layers.size(); ++i) {
    const h3t::LayerProfile& layer = inputs.layers[i];
    stage.forward_ms += ms(switches[i].rematerialize ? layer.forward_no_grad : layer.forward_with_grad);
    if (switches[i].rematerialize) stage.recompute_ms += ms(layer.forward_with_grad);
    stage.backward_ms += ms(layer.backward);
    stage.optimizer_ms += ms(layer.optimizer_step);
    if (!switches[i].lazy_prefetch) resident += layer.partitioned_parameters;
  }
  const double busy = stage.forward_ms + stage.recompute_ms + stage.backward_ms + stage.optimizer_ms;
  stage.exposed_communication_ms = std::max(0.0, ms(outcome.runtime) - busy);
  stage.memory_bytes = outcome.peak;
  stage.memory.states = resident;
  stage.memory.activations = outcome.peak - resident;
  return stage;
}

std::string excess_of(const h3t::StepOutcome& outcome, const h3t::Problem& problem) {
  std::string text;
  if (outcome.peak > problem.device_limit) {
    text = "stage 0 allocates " + format_bytes(outcome.peak) + ", the memory limit is " +
           format_bytes(problem.device_limit) + ", " + format_bytes(outcome.peak - problem.device_limit) +
           " too much: use more devices or a smaller batch, or turn on switches that are off";
  }
  if (outcome.host > problem.host_limit) {
    text += (text.empty() ? "" : "; and ") + std::string("each rank keeps ") + format_bytes(outcome.host) +
            " on its host, where it may have " + format_bytes(problem.host_limit) +
            ": offload fewer hidden states, or use more nodes";
  }
  return text;
}

}  // namespace

Result<H3tCostModel> H3tCostModel::build(const Model& model, const Cluster& cluster, const std::vector<Cost>& costs,
                                         h3t::Fabric fabric, CostTableOptions options) {
  TRIMTAB_TRY(CostTable table, CostTable::build(model, cluster, costs, options));
  return H3tCostModel(std::move(table), fabric);
}

std::string_view H3tCostModel::name() const {
  return fabric_ == h3t::Fabric::kNvlink ? "h3t:nvlink" : "h3t:pcie";
}

h3t::StepInputs H3tCostModel::inputs(std::int32_t devices) const {
  return h3t::step_inputs(table_, devices);
}

h3t::Problem H3tCostModel::problem(const h3t::StepInputs& inputs, std::int32_t devices) const {
  // What one rank may use: the least of its nodes. A node that says nothing limits nothing.
  Bytes device = h3t::kUnlimited;
  Bytes host = h3t::kUnlimited;  // the node's, shared evenly by those of its devices that the job has
  for (const Node& node : cluster().nodes) {
    const std::int32_t used = std::min(node.devices, devices);
    if (used <= 0) break;
    if (node.memory_bytes > 0) device = std::min(device, node.memory_bytes);
    if (node.host_memory_bytes > 0) host = std::min(host, node.host_memory_bytes / used);
    devices -= used;
  }
  return {inputs.layers, fabric_, device, host};
}

Prediction H3tCostModel::evaluate(const Plan& plan) const {
  const h3t::StepInputs inputs = this->inputs(devices_of(plan));
  const h3t::Switching switches = h3t::switching_of(plan, inputs.operators);
  const h3t::Problem problem = this->problem(inputs, devices_of(plan));
  const h3t::StepOutcome outcome = h3t::SegmentSimulator(inputs.layers, fabric_).step(switches);
  Prediction prediction;
  prediction.stages.push_back(predict_stage(inputs, switches, outcome));
  papers::set_time(h3t::ms(outcome.runtime), prediction.stages.front().exposed_communication_ms, prediction);
  papers::name_bottleneck(0, prediction.communication_share_ms > prediction.computation_share_ms, prediction);
  prediction.missing_costs.assign(inputs.missing.begin(), inputs.missing.end());
  prediction.estimated_costs.assign(inputs.estimated.begin(), inputs.estimated.end());
  if (!inputs.missing.empty()) {
    prediction.take_price_away();
  } else if (!problem.fits(outcome)) {
    papers::exceed(0, excess_of(outcome, problem), prediction);
  }
  return prediction;
}

std::vector<TimelineEvent> H3tCostModel::timeline(const Plan& plan) const {
  const h3t::StepInputs inputs = this->inputs(devices_of(plan));
  std::vector<h3t::TaskTime> tasks;
  h3t::SegmentSimulator(inputs.layers, fabric_).step(h3t::switching_of(plan, inputs.operators), &tasks);
  std::vector<TimelineEvent> events;
  std::vector<bool> recomputing(inputs.layers.size(), false);
  for (const h3t::TaskTime& task : tasks) {
    // A layer's second forward pass is a recomputation.
    const bool forward = task.task == Task::kForwardNoGrad || task.task == Task::kForwardWithGrad;
    const bool again = forward && recomputing[task.layer];
    if (forward) recomputing[task.layer] = true;
    if (task.begin == task.end) continue;
    events.push_back({0, event_kind(task.task, again), 0, ms(task.begin), ms(task.end)});
  }
  papers::sort_events(events);
  return events;
}

std::vector<std::string> H3tCostModel::unpriced(const Plan& plan) const {
  return h3t::unpriced(plan, h3t::layers_of(model()));
}

std::unique_ptr<CostModel> H3tCostModel::on(const Cluster& cluster) const {
  return std::make_unique<H3tCostModel>(H3tCostModel(table_.on(cluster), fabric_));
}

}  // namespace trimtab::tuner
