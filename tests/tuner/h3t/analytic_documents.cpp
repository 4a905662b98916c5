#include "analytic_documents.hpp"

namespace trimtab::tuner::h3t::test {
namespace {

constexpr const char* kKey = "transformer-layer";
constexpr double kDeviceBytesPerS = 616e9;  // between a device and its memory
constexpr Bytes kProcessBytes = Bytes{600} << 20;
constexpr double kOptimizerBytes = 6;  // of a parameter byte: two moments and a copy, in single precision

class Writer {
 public:
  Writer(std::int32_t samples, std::int32_t devices) : samples_(samples), devices_(devices) {}

  void operator_cost(CostKind kind, std::int64_t value) {
    CostKey key;
    key.kind = kind;
    key.subject = kKey;
    key.dtype = "float16";
    key.samples = samples_;
    put(key, value);
  }
  void optimizer(const char* placement, std::int64_t value) {
    CostKey key;
    key.kind = CostKind::kOptimizerStep;
    key.subject = kKey;
    key.dtype = "float16";
    key.placement = placement;
    put(key, value);
  }
  void process(Bytes bytes) {
    CostKey key;
    key.kind = CostKind::kProcessBytes;
    key.subject = "process";
    put(key, bytes);
  }
  void collective(const char* primitive, Bytes bytes, std::int64_t value) {
    CostKey key;
    key.kind = CostKind::kCollective;
    key.subject = primitive;
    key.bytes = bytes;
    key.group_size = devices_;
    put(key, value);
  }
  void copy(const char* direction, Bytes bytes, std::int64_t value) {
    CostKey key;
    key.kind = CostKind::kPointToPoint;
    key.subject = direction;
    key.bytes = bytes;
    put(key, value);
  }
  [[nodiscard]] std::vector<Cost> take() { return std::move(costs_); }

 private:
  void put(const CostKey& key, std::int64_t value) {
    Cost cost;
    cost.key = canonical(key);
    cost.statistics.add(value);
    cost.statistics.add(value);
    costs_.push_back(std::move(cost));
  }

  std::int32_t samples_;
  std::int32_t devices_;
  std::vector<Cost> costs_;
};

}  // namespace

Documents analytic_documents(const Machine& machine, const TransformerSize& size, std::int32_t samples) {
  const LayerProfile layer = analytic_layer(machine, size, samples);
  Documents documents;
  Model& model = documents.model;
  model.name = size.name;
  model.global_batch = samples * machine.devices;
  model.dtype = "float16";
  model.optimizer_bytes_per_parameter_byte = kOptimizerBytes;
  for (std::int32_t i = 0; i < size.layers; ++i) {
    Operator op;
    op.name = "layer" + std::to_string(i);
    op.kind = "transformer";
    op.layer = i;
    op.cost_key = kKey;
    op.parameter_bytes = layer.gathered_parameters;
    op.output_bytes = layer.input / samples;
    model.operators.push_back(std::move(op));
  }
  Node node;
  node.name = "n0";
  node.devices = machine.devices;
  documents.cluster.nodes.push_back(std::move(node));

  Writer writer(samples, machine.devices);
  writer.operator_cost(CostKind::kOperatorForward, layer.forward_with_grad);
  writer.operator_cost(CostKind::kOperatorBackward, layer.backward);
  writer.operator_cost(CostKind::kOperatorStoredBytes, layer.with_grad.delta + layer.input);
  writer.operator_cost(CostKind::kOperatorWorkingBytes, layer.with_grad.peak - layer.with_grad.delta);
  writer.optimizer("host", layer.optimizer_step * machine.devices);
  writer.collective("all_gather", layer.partitioned_parameters, layer.gather_parameters);
  writer.collective("reduce_scatter", layer.gathered_gradients, layer.scatter_gradients);
  // Of one device, and of all devices of the node over one link.
  for (const std::int32_t sharers : {1, machine.devices}) {
    writer.copy("host_to_device", sharers * layer.partitioned_parameters, sharers * layer.prefetch_parameters);
    writer.copy("host_to_device", sharers * layer.input, sharers * layer.prefetch_hidden);
    writer.copy("device_to_host", sharers * layer.partitioned_parameters, sharers * layer.offload_gradients);
    writer.copy("device_to_host", sharers * layer.input, sharers * layer.offload_hidden);
  }
  const double optimizer_s = static_cast<double>(layer.gathered_parameters) * kOptimizerBytes / kDeviceBytesPerS;
  writer.optimizer("", static_cast<std::int64_t>(optimizer_s * 1e9));
  writer.process(kProcessBytes);
  documents.costs = writer.take();
  return documents;
}

}  // namespace trimtab::tuner::h3t::test
