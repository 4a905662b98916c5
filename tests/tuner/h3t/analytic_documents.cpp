#include "analytic_documents.hpp"

namespace trimtab::tuner::h3t::test {
namespace {

constexpr const char* kKey = "transformer-layer";
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
  void host_optimizer(std::int64_t value) {
    CostKey key;
    key.kind = CostKind::kOptimizerStep;
    key.subject = kKey;
    key.dtype = "float16";
    key.placement = "host";
    put(key, value);
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
  writer.host_optimizer(layer.optimizer_step * machine.devices);
  writer.collective("all_gather", layer.partitioned_parameters, layer.gather_parameters);
  writer.collective("reduce_scatter", layer.gathered_gradients, layer.scatter_gradients);
  for (const Bytes bytes : {layer.partitioned_parameters, layer.input}) {
    const bool hidden = bytes == layer.input;
    writer.copy("host_to_device", bytes, hidden ? layer.prefetch_hidden : layer.prefetch_parameters);
    writer.copy("device_to_host", bytes, hidden ? layer.offload_hidden : layer.offload_gradients);
  }
  documents.costs = writer.take();
  return documents;
}

}  // namespace trimtab::tuner::h3t::test
