#include "native/stage/switch_stage.hpp"

#include "base/check.hpp"
#include "native/stage/layer_sums.hpp"

namespace trimtab::tuner {
namespace {

using h3t::kTicksPerMs;

double ms_of(h3t::Ticks ticks) {
  return static_cast<double>(ticks) / kTicksPerMs;
}

h3t::LayerSwitches switches_of(const Switches& switches, bool recomputed, std::int32_t first) {
  h3t::LayerSwitches of;
  of.rematerialize = recomputed;
  for (const h3t::SwitchField& field : h3t::kSwitchFields)
    of.*field.of_layer = contains(switches.*field.of_plan, first);
  return of;
}

// Of layouts, between layers.
void add_changes(const Calibration& calibration, const StageInputs& inputs, StageTimes& times) {
  const double moving = calibration.moving(CommunicationClass::kCollectives);
  for (const double ms : inputs.change_forward) times.forward_wait += ms * moving;
  for (const double ms : inputs.change_backward) times.backward_wait += ms * moving;
}

}  // namespace

// The profiles of a stage's layers.
class SwitchStage::Layers {
 public:
  Layers(const SwitchableStage& of, std::vector<SwitchCost>* unmeasured) : of_(of), unmeasured_(unmeasured) {}

  [[nodiscard]] bool complete() const { return complete_; }

  [[nodiscard]] h3t::LayerProfile layer(const Range& range) {
    set_split(range.begin);
    sums_ = {};
    reserve_ = 0;
    for (std::int32_t i = range.begin; i < range.end; ++i) add(i);
    h3t::LayerSums of_layer = sums_;
    of_layer.forward_ms *= of_.calibration.computation.value;
    of_layer.backward_ms *= of_.calibration.computation.value;
    of_layer.optimizer_ms *= of_.calibration.computation.value;
    of_layer.working = std::max(sums_.working, reserve_);
    of_layer.input = range.begin == 0 ? 0 : of_.tables.output[range.begin - 1] * split_->samples;
    of_layer.output = range.end == of_.tables.operators() ? 0 : of_.tables.output[range.end - 1] * split_->samples;
    h3t::LayerProfile of = h3t::profile_of(of_layer, of_.tables, split_->split.dp);
    of.gather_parameters = collective(Primitive::kAllGather, of.partitioned_parameters);
    of.scatter_gradients = collective(Primitive::kReduceScatter, of.gathered_gradients);
    of.prefetch_parameters = copy(HostCopy::kHostToDevice, of.partitioned_parameters);
    of.offload_gradients = copy(HostCopy::kDeviceToHost, of.partitioned_gradients);
    of.prefetch_hidden = copy(HostCopy::kHostToDevice, of.input);
    of.offload_hidden = copy(HostCopy::kDeviceToHost, of.input);
    return of;
  }

  // A device that receives a gather faster than a copy from its host, with nobody beside it, has links of their own to
  // the other devices; else all of its communication is on one.
  [[nodiscard]] h3t::Fabric fabric_of(const std::vector<h3t::LayerProfile>& layers) const {
    for (const h3t::LayerProfile& layer : layers) {
      const Bytes received = layer.gathered_parameters - layer.partitioned_parameters;
      if (received <= 0 || layer.gather_parameters == 0) continue;
      const Value alone = of_.tables.links.host_copy(HostCopy::kHostToDevice, received);
      // By what was measured of either: which links there are is no matter of what trials have taught.
      const double copy_ms = alone.mean * of_.calibration.moving(CommunicationClass::kGradients);
      if (static_cast<double>(layer.gather_parameters) >= copy_ms * kTicksPerMs) return h3t::Fabric::kPcie;
    }
    return h3t::Fabric::kNvlink;
  }

 private:
  // Of the segment that the layer is in.
  void set_split(std::int32_t first) {
    const auto inside = std::ranges::find_if(of_.shape.segments,
                                             [first](const SegmentShape& of) { return of.operators.contains(first); });
    TRIMTAB_ASSERT(inside != of_.shape.segments.end(), "a stage's segments hold all of its operators");
    split_ = &inside->split;
    costs_ = &of_.tables.at(split_->samples, split_->split.tp);
  }

  void add(std::int32_t i) {
    const OperatorPrice& price = of_.inputs.price(i);
    const std::int32_t group = of_.tables.group_of[i];
    sums_.forward_ms += price.forward;
    sums_.backward_ms += price.backward;
    sums_.stored += price.stored;
    sums_.working = std::max(sums_.working, price.working);
    reserve_ = std::max(reserve_, price.forward_reserve + price.backward_reserve);
    const double input = i == 0 ? 0 : of_.tables.output[i - 1] * split_->samples;
    sums_.widest = std::max(sums_.widest, input + price.stored + price.working);
    const double parameters = costs_->of_group[group].parameters;
    const auto all = static_cast<double>(of_.tables.operator_of(group).parameter_bytes);
    sums_.parameters += parameters;
    if (all > 0) sums_.optimizer_ms += used_host_optimizer(group) * parameters / all;
  }

  double used_host_optimizer(std::int32_t group) {
    const Value value = h3t::host_optimizer(of_.tables, group);
    if (is_noted(value.quality)) {
      const CostKey key = h3t::host_optimizer_key(of_.tables, group);
      unmeasured_->push_back({value.quality, key, "optimizer " + key.subject + " with placement host"});
    }
    return value.mean;
  }

  h3t::Ticks collective(Primitive primitive, Bytes bytes) {
    if (split_->split.dp < 2) return 0;
    const Value value = of_.tables.links.collective(primitive, bytes, split_->split.dp, split_->replicas);
    if (is_noted(value.quality)) {
      CostKey key;
      key.kind = CostKind::kCollective;
      key.subject = to_string(primitive);
      key.bytes = bytes;
      key.group_size = split_->split.dp;
      key.placement = to_string(split_->replicas.placement);
      unmeasured_->push_back(
          {value.quality, key, "collective " + key.subject + " over " + std::to_string(key.group_size) + " ranks"});
    }
    return whole(value.mean * of_.calibration.moving(CommunicationClass::kGradients) * kTicksPerMs);
  }

  // All that share the link copy as much at the same time.
  h3t::Ticks copy(HostCopy direction, Bytes bytes) {
    const Bytes together = bytes * of_.sharers;
    const Value value = of_.tables.links.host_copy(direction, together);
    if (is_noted(value.quality)) {
      CostKey key;
      key.kind = CostKind::kPointToPoint;
      key.subject = to_string(direction);
      key.bytes = together;
      unmeasured_->push_back(
          {value.quality, key, "copy " + key.subject + " of " + std::to_string(together) + " bytes"});
    }
    return whole(value.mean * of_.calibration.communication.value * kTicksPerMs);
  }

  // Whether somebody is to be told of the cost: a search is not, and prices some hundred thousand stages.
  bool is_noted(Quality quality) {
    complete_ = complete_ && quality != Quality::kMissing;
    return quality != Quality::kMeasured && unmeasured_ != nullptr;
  }

  const SwitchableStage& of_;
  std::vector<SwitchCost>* unmeasured_;
  const SplitShape* split_ = nullptr;  // of the layer at hand
  const OperatorTable* costs_ = nullptr;
  h3t::LayerSums sums_;
  double reserve_ = 0;  // of the widest operator, where the allocator reserves more than it works with
  bool complete_ = true;
};

SwitchedStage SwitchStage::price(const SwitchableStage& stage, const Switches& switches,
                                 const RecomputeFlags& recompute, std::vector<SwitchCost>* unmeasured) {
  const StageInputs& inputs = stage.inputs;
  SwitchedStage out;
  out.complete = set_layers(stage, unmeasured);
  switching_.clear();
  Bytes retained = 0;   // of a microbatch, between its passes
  Bytes offloaded = 0;  // of it, on the host
  Bytes resident = 0;
  StageTimes& times = out.times;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const h3t::LayerProfile& layer = layers_[i];
    const std::int32_t first = ranges_[i].begin;
    switching_.push_back(switches_of(switches, recompute[first] != 0, first));
    const h3t::LayerSwitches& of = switching_.back();
    if (!of.lazy_prefetch) resident += layer.partitioned_parameters;
    retained += h3t::retained_bytes(layer, of);
    offloaded += h3t::offloaded_bytes(layer, of);
    times.forward += ms_of(layer.forward_with_grad);
    times.backward += ms_of(layer.backward);
    if (of.rematerialize) times.recompute += ms_of(layer.forward_with_grad);
  }
  h3t::SegmentSimulator simulator(layers_, fabric_);
  const h3t::StepOutcome step = simulator.step(switching_);
  times.forward_wait = ms_of(simulator.forward_pass()) - times.forward;
  times.backward_wait = ms_of(simulator.passes() - simulator.forward_pass()) - times.backward - times.recompute;
  add_changes(stage.calibration, inputs, times);
  times.last_backward = times.backward_pass();
  times.optimizer = ms_of(step.runtime - simulator.passes());
  add_launches(stage.calibration, inputs, 1, recompute, times);
  add_pass_waits(stage.calibration, inputs, inputs, 1, recompute, times);
  out.host_bytes = static_cast<double>(step.host + (inputs.in_flight - 1) * offloaded);
  out.bytes.states = static_cast<double>(resident);
  out.bytes.activations = static_cast<double>(inputs.in_flight * retained);
  out.bytes.working = static_cast<double>(std::max<Bytes>(0, step.peak - resident - retained));
  out.bytes.process = inputs.process_bytes;
  return out;
}

bool SwitchStage::set_layers(const SwitchableStage& of, std::vector<SwitchCost>* unmeasured) {
  Layers layers(of, unmeasured);
  ranges_ = layers_inside(of.tables.model, of.inputs.operators);
  layers_.clear();
  for (const Range& range : ranges_) layers_.push_back(layers.layer(range));
  fabric_ = layers.fabric_of(layers_);
  return layers.complete();
}

std::optional<ChosenSwitches> SwitchStage::choose(const SwitchableStage& of, const SwitchDemand& demand) {
  if (!set_layers(of, nullptr)) return std::nullopt;
  h3t::Problem problem{layers_, fabric_};
  if (demand.device_limit > 0) problem.device_limit = whole(std::floor(demand.device_limit - of.inputs.process_bytes));
  if (demand.host_limit > 0) problem.host_limit = whole(std::floor(demand.host_limit));
  problem.microbatches = demand.microbatches;
  problem.allowed = demand.allowed;
  problem.in_flight = of.inputs.in_flight;
  const h3t::StageChoice& choice = choices_.choose(problem);
  ChosenSwitches chosen;
  chosen.feasible = choice.feasible;
  chosen.switches = h3t::plan_switches(ranges_, choice.best.switches);
  chosen.recompute = h3t::rematerialized(ranges_, choice.best.switches);
  chosen.step_ms = ms_of(choice.best.outcome.runtime);
  chosen.bound_ms = ms_of(choice.bound);
  return chosen;
}

std::optional<std::vector<h3t::LayerProfile>> SwitchStage::layers(const SwitchableStage& of) {
  if (!set_layers(of, nullptr)) return std::nullopt;
  return layers_;
}

bool prices_switches(const CostTable::Tables& tables, const PlanSpace& space) {
  return space.memory_switches && tables.links.knows_host_copies();
}

std::int32_t devices_sharing_node(const std::vector<std::int32_t>& node_of, const std::int32_t* devices,
                                  std::int32_t count) {
  std::int32_t most = 1;
  std::int32_t last = -1;
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t node = node_of[devices[i]];
    if (node == std::exchange(last, node)) continue;
    // Not its twin of std::ranges: clang 14, which builds the fuzz targets, cannot compile what that returns.
    const auto [begin, end] = std::equal_range(node_of.begin(), node_of.end(), node);
    most = std::max(most, static_cast<std::int32_t>(end - begin));
  }
  return most;
}

double host_limit(const Cluster& cluster, const std::vector<std::int32_t>& node_of, const std::int32_t* devices,
                  std::int32_t count) {
  Bytes least = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    const Node& node = cluster.nodes[node_of[devices[i]]];
    const Bytes share = node.host_memory_bytes / node.devices;
    if (node.host_memory_bytes > 0 && (least == 0 || share < least)) least = std::max<Bytes>(1, share);
  }
  return static_cast<double>(least);
}

}  // namespace trimtab::tuner
