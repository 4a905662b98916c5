#include "papers/h3t/step_inputs.hpp"

#include <algorithm>
#include <numeric>

#include "native/stage/layer_sums.hpp"
#include "plan/switch_plan.hpp"

namespace trimtab::tuner::h3t {
namespace {

class Inputs {
 public:
  Inputs(const CostTable& table, std::int32_t devices)
      : tables_(table.tables()),
        devices_(devices),
        samples_(tables_.model.global_batch / devices),
        costs_(tables_.at(samples_)) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(devices));
    std::iota(all.begin(), all.end(), 0);
    placement_ = placement_of(tables_.cluster, all);
  }

  StepInputs build() {
    out_.operators = layers_of(tables_.model);
    for (const Range& range : out_.operators) out_.layers.push_back(layer(range));
    return std::move(out_);
  }

 private:
  LayerProfile layer(const Range& range) {
    LayerSums sums;
    for (std::int32_t i = range.begin; i < range.end; ++i) add_operator(i, sums);
    sums.input = range.begin == 0 ? 0 : tables_.output[range.begin - 1] * samples_;
    sums.output = range.end == tables_.operators() ? 0 : tables_.output[range.end - 1] * samples_;
    LayerProfile of = profile_of(sums, tables_, devices_);
    add_communication(of);
    return of;
  }

  void add_operator(std::int32_t i, LayerSums& sums) {
    const std::int32_t group = tables_.group_of[i];
    const OperatorCosts& costs = costs_.of_group[group];
    sums.forward_ms += used(costs.forward, CostKind::kOperatorForward, group);
    sums.backward_ms += used(costs.backward, CostKind::kOperatorBackward, group);
    const double stored = used(costs.stored, CostKind::kOperatorStoredBytes, group);
    const double working = std::max(used(costs.working, CostKind::kOperatorWorkingBytes, group),
                                    costs.forward_reserve + costs.backward_reserve);
    sums.stored += stored;
    sums.working = std::max(sums.working, working);
    const double input = i == 0 ? 0 : tables_.output[i - 1] * samples_;
    sums.widest = std::max(sums.widest, input + stored + working);
    const auto parameters = static_cast<double>(tables_.operator_of(group).parameter_bytes);
    sums.parameters += parameters;
    if (parameters > 0) sums.optimizer_ms += used_host_optimizer(group);
  }

  double used(const Value& value, CostKind kind, std::int32_t group) {
    CostKey key;
    key.kind = kind;
    key.subject = tables_.group_names[group];
    key.dtype = tables_.model.dtype;
    key.samples = samples_;
    note(value.quality, key, "operator " + key.subject + " with " + std::to_string(samples_) + " samples");
    return value.mean;
  }

  double used_host_optimizer(std::int32_t group) {
    const Value value = host_optimizer(tables_, group);
    const CostKey key = host_optimizer_key(tables_, group);
    note(value.quality, key, "optimizer " + key.subject + " with placement host");
    return value.mean;
  }

  void add_communication(LayerProfile& of) {
    of.gather_parameters = collective(Primitive::kAllGather, of.partitioned_parameters);
    of.scatter_gradients = collective(Primitive::kReduceScatter, of.gathered_gradients);
    of.prefetch_parameters = copy(HostCopy::kHostToDevice, of.partitioned_parameters);
    of.offload_gradients = copy(HostCopy::kDeviceToHost, of.partitioned_gradients);
    of.prefetch_hidden = copy(HostCopy::kHostToDevice, of.input);
    of.offload_hidden = copy(HostCopy::kDeviceToHost, of.input);
  }

  Ticks collective(Primitive primitive, Bytes bytes) {
    const Value value = tables_.links.collective(primitive, bytes, devices_, placement_);
    CostKey key;
    key.kind = CostKind::kCollective;
    key.subject = to_string(primitive);
    key.bytes = bytes;
    key.group_size = devices_;
    key.placement = to_string(placement_);
    note(value.quality, key,
         "collective " + key.subject + " of " + std::to_string(bytes) + " bytes over " + std::to_string(devices_) +
             " ranks");
    return whole(value.mean * kTicksPerMs);
  }

  Ticks copy(HostCopy direction, Bytes bytes) {
    const Value value = tables_.links.host_copy(direction, bytes);
    CostKey key;
    key.kind = CostKind::kPointToPoint;
    key.subject = to_string(direction);
    key.bytes = bytes;
    note(value.quality, key, "copy " + key.subject + " of " + std::to_string(bytes) + " bytes");
    return whole(value.mean * kTicksPerMs);
  }

  void note(Quality quality, const CostKey& key, const std::string& benchmark) {
    if (quality == Quality::kMeasured) return;
    const std::string text = describe(key) + " (benchmark: " + benchmark + ")";
    (quality == Quality::kMissing ? out_.missing : out_.estimated).insert(text);
  }

  const CostTable::Tables& tables_;
  std::int32_t devices_;
  std::int32_t samples_;
  const OperatorTable& costs_;
  Placement placement_ = Placement::kIntraNode;
  StepInputs out_;
};

}  // namespace

std::vector<Range> layers_of(const Model& model) {
  return layers_inside(model, {0, static_cast<std::int32_t>(model.operators.size())});
}

StepInputs step_inputs(const CostTable& table, std::int32_t devices) {
  return Inputs(table, devices).build();
}

}  // namespace trimtab::tuner::h3t
