#include "switch_stage.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "h3t_model/layer_sums.hpp"

namespace trimtab::tuner {
namespace {

using h3t::kTicksPerMs;
using h3t::whole;

double ms_of(h3t::Ticks ticks) {
  return static_cast<double>(ticks) / kTicksPerMs;
}

bool lists(const std::vector<Range>& ranges, std::int32_t i) {
  return std::any_of(ranges.begin(), ranges.end(), [i](const Range& range) { return range.contains(i); });
}

h3t::LayerSwitches switches_of(const Switches& switches, bool recomputed, std::int32_t first) {
  h3t::LayerSwitches of;
  of.partition_parameters = lists(switches.partition_parameters, first);
  of.lazy_prefetch = lists(switches.lazy_prefetch, first);
  of.rematerialize = recomputed;
  of.offload_hidden = lists(switches.offload_hidden, first);
  of.economical_forward = lists(switches.economical_forward, first);
  of.economical_backward = lists(switches.economical_backward, first);
  of.segment_sync = lists(switches.segment_sync, first);
  return of;
}

}  // namespace

// The profiles of a stage's layers.
class SwitchStage::Layers {
 public:
  Layers(const CostTable::Tables& tables, const Calibration& calibration, const StageInputs& inputs,
         const SplitShape& split, std::int32_t sharers, std::vector<SwitchCost>* unmeasured)
      : tables_(tables),
        calibration_(calibration),
        inputs_(inputs),
        split_(split),
        sharers_(sharers),
        unmeasured_(unmeasured),
        costs_(tables.at(split.samples, split.split.tp)) {}

  [[nodiscard]] bool complete() const { return complete_; }

  [[nodiscard]] h3t::LayerProfile layer(const Range& range) {
    sums_ = {};
    reserve_ = 0;
    for (std::int32_t i = range.begin; i < range.end; ++i) add(i);
    const double memory = calibration_.memory.value;
    h3t::LayerSums of_layer = sums_;
    of_layer.forward_ms *= calibration_.computation.value;
    of_layer.backward_ms *= calibration_.computation.value;
    of_layer.optimizer_ms *= calibration_.computation.value;
    of_layer.stored *= memory;
    of_layer.widest *= memory;
    of_layer.working = std::max(sums_.working, reserve_) * memory;
    of_layer.input = range.begin == 0 ? 0 : tables_.output[range.begin - 1] * split_.samples * memory;
    of_layer.output = range.end == tables_.operators() ? 0 : tables_.output[range.end - 1] * split_.samples * memory;
    h3t::LayerProfile of = h3t::profile_of(of_layer, tables_, split_.split.dp);
    of.gather_parameters = collective(Primitive::kAllGather, of.partitioned_parameters);
    of.scatter_gradients = collective(Primitive::kReduceScatter, of.gathered_gradients);
    of.prefetch_parameters = copy(HostCopy::kHostToDevice, of.partitioned_parameters);
    of.offload_gradients = copy(HostCopy::kDeviceToHost, of.partitioned_gradients);
    of.prefetch_hidden = copy(HostCopy::kHostToDevice, of.input);
    of.offload_hidden = copy(HostCopy::kDeviceToHost, of.input);
    return of;
  }

  // A gather that takes less for a byte than the host link cannot run over that link.
  [[nodiscard]] static h3t::Fabric fabric_of(const std::vector<h3t::LayerProfile>& layers) {
    for (const h3t::LayerProfile& layer : layers) {
      const double moved = static_cast<double>(layer.gathered_parameters - layer.partitioned_parameters);
      if (moved <= 0 || layer.prefetch_parameters <= 0) continue;
      const double link = static_cast<double>(layer.prefetch_parameters) * moved;
      const double gather = static_cast<double>(layer.gather_parameters);
      if (gather * static_cast<double>(layer.partitioned_parameters) >= link) return h3t::Fabric::kPcie;
    }
    return h3t::Fabric::kNvlink;
  }

 private:
  void add(std::int32_t i) {
    const OperatorPrice& price = inputs_.price(i);
    const std::int32_t group = tables_.group_of[i];
    sums_.forward_ms += price.forward;
    sums_.backward_ms += price.backward;
    sums_.stored += price.stored;
    sums_.working = std::max(sums_.working, price.working);
    reserve_ = std::max(reserve_, price.forward_reserve + price.backward_reserve);
    const double input = i == 0 ? 0 : tables_.output[i - 1] * split_.samples;
    sums_.widest = std::max(sums_.widest, input + price.stored + price.working);
    const double parameters = costs_.of_group[group].parameters;
    const auto all = static_cast<double>(tables_.operator_of(group).parameter_bytes);
    sums_.parameters += parameters;
    if (all > 0) sums_.optimizer_ms += used_host_optimizer(group) * parameters / all;
  }

  double used_host_optimizer(std::int32_t group) {
    const h3t::HostOptimizer of = h3t::host_optimizer(tables_, group);
    note(of.value.quality, of.key, of.benchmark);
    return of.value.mean;
  }

  h3t::Ticks collective(Primitive primitive, Bytes bytes) {
    if (split_.split.dp < 2) return 0;
    const Value value = tables_.links.collective(primitive, bytes, split_.split.dp, split_.replicas);
    CostKey key;
    key.kind = CostKind::kCollective;
    key.subject = to_string(primitive);
    key.bytes = bytes;
    key.group_size = split_.split.dp;
    key.placement = to_string(split_.replicas);
    note(value.quality, key, "collective " + key.subject + " over " + std::to_string(key.group_size) + " ranks");
    return whole(value.mean * calibration_.communication.value * kTicksPerMs);
  }

  // All that share the link copy as much at the same time.
  h3t::Ticks copy(HostCopy direction, Bytes bytes) {
    const Bytes together = bytes * sharers_;
    const Value value = tables_.links.host_copy(direction, together);
    CostKey key;
    key.kind = CostKind::kPointToPoint;
    key.subject = to_string(direction);
    key.bytes = together;
    note(value.quality, key, "copy " + key.subject + " of " + std::to_string(together) + " bytes");
    return whole(value.mean * calibration_.communication.value * kTicksPerMs);
  }

  void note(Quality quality, const CostKey& key, std::string benchmark) {
    complete_ = complete_ && quality != Quality::kMissing;
    if (quality != Quality::kMeasured && unmeasured_ != nullptr) {
      unmeasured_->push_back({quality, key, std::move(benchmark)});
    }
  }

  const CostTable::Tables& tables_;
  const Calibration& calibration_;
  const StageInputs& inputs_;
  const SplitShape& split_;
  std::int32_t sharers_;
  std::vector<SwitchCost>* unmeasured_;
  const OperatorTable& costs_;
  h3t::LayerSums sums_;
  double reserve_ = 0;  // of the widest operator, where the allocator reserves more than it works with
  bool complete_ = true;
};

SwitchedStage SwitchStage::price(const CostTable::Tables& tables, const Calibration& calibration,
                                 const StageInputs& inputs, const SplitShape& split, const Switches& switches,
                                 const RecomputeFlags& recompute, std::int32_t sharers,
                                 std::vector<SwitchCost>* unmeasured) {
  SwitchedStage out;
  Layers layers(tables, calibration, inputs, split, sharers, unmeasured);
  layers_.clear();
  switching_.clear();
  double retained = 0;   // of a microbatch, between its passes
  double offloaded = 0;  // of it, on the host
  Bytes resident = 0;
  StageTimes& times = out.times;
  for (const Range& range : layers_inside(tables.model, inputs.operators)) {
    layers_.push_back(layers.layer(range));
    const h3t::LayerProfile& layer = layers_.back();
    switching_.push_back(switches_of(switches, recompute[range.begin] != 0, range.begin));
    const h3t::LayerSwitches& of = switching_.back();
    if (!of.lazy_prefetch) resident += layer.partitioned_parameters;
    (of.offload_hidden ? offloaded : retained) += static_cast<double>(layer.input);
    if (!of.rematerialize) retained += static_cast<double>(layer.with_grad.delta);
    times.forward += ms_of(layer.forward_with_grad);
    times.backward += ms_of(layer.backward);
    if (of.rematerialize) times.recompute += ms_of(layer.forward_with_grad);
    out.host_bytes += static_cast<double>(layer.host_bytes);
  }
  out.host_bytes += offloaded * inputs.in_flight;
  out.complete = layers.complete();

  h3t::SegmentSimulator simulator(layers_, Layers::fabric_of(layers_));
  const auto last = static_cast<std::int32_t>(layers_.size()) - 1;
  simulator.begin(switching_, resident);
  simulator.synchronize();
  simulator.forward_head(0);
  for (std::int32_t i = 0; i <= last; ++i) simulator.forward(i);
  simulator.forward_tail(last);
  simulator.synchronize();
  const h3t::Ticks forward = simulator.runtime();
  simulator.backward_head(last);
  for (std::int32_t i = last; i >= 0; --i) simulator.backward(i);
  simulator.backward_tail(0);
  simulator.synchronize();
  const h3t::Ticks passes = simulator.runtime();
  simulator.optimizer();
  times.forward_wait = ms_of(forward) - times.forward;
  times.backward_wait = ms_of(passes - forward) - times.backward - times.recompute;
  times.last_backward = times.backward_pass();
  times.optimizer = ms_of(simulator.runtime() - passes);
  out.bytes.states = static_cast<double>(resident);
  out.bytes.activations = retained * inputs.in_flight;
  out.bytes.working = std::max(0.0, static_cast<double>(simulator.peak() - resident) - retained);
  out.bytes.process = inputs.process_bytes;
  return out;
}

std::int32_t devices_sharing_node(const std::vector<std::int32_t>& node_of, const std::int32_t* devices,
                                  std::int32_t count) {
  std::int32_t most = 1;
  for (std::int32_t i = 0; i < count; ++i) {
    most = std::max(most, static_cast<std::int32_t>(std::count_if(devices, devices + count, [&](std::int32_t d) {
                      return node_of[d] == node_of[devices[i]];
                    })));
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

std::vector<Range> layers_inside(const Model& model, const Range& operators) {
  std::vector<Range> layers;
  for (std::int32_t i = operators.begin; i < operators.end; ++i) {
    const bool continues = i > operators.begin && model.operators[i].layer == model.operators[i - 1].layer;
    if (!continues) layers.push_back({i, i});
    layers.back().end = i + 1;
  }
  return layers;
}

}  // namespace trimtab::tuner
