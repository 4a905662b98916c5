#include "gpt_world.hpp"

#include <algorithm>
#include <iterator>

namespace trimtab::tuner::test {
namespace {

Cost exact(CostKind kind, const std::string& subject, std::int32_t samples, std::int64_t value) {
  Cost cost;
  cost.key.kind = kind;
  cost.key.subject = subject;
  cost.key.dtype = "float32";
  cost.key.samples = samples;
  cost.statistics.add(value);
  cost.statistics.add(value);
  return cost;
}

void add_operator(Workload& work, const std::string& kind, std::int32_t layer, Bytes parameters) {
  Operator op;
  op.name = "layer" + std::to_string(layer) + "-" + kind;
  op.kind = op.cost_key = kind;
  op.layer = layer;
  op.parameter_bytes = parameters;
  op.output_bytes = 1 << 20;
  op.activation_bytes = 6 << 20;
  work.model.operators.push_back(op);
}

void measure(Workload& work, const std::string& kind, std::int64_t forward_ns, std::int64_t stored) {
  for (std::int32_t samples = 1; samples <= work.model.global_batch; samples *= 2) {
    work.costs.push_back(exact(CostKind::kOperatorForward, kind, samples, 200000 + forward_ns * samples));
    work.costs.push_back(exact(CostKind::kOperatorBackward, kind, samples, 300000 + 2 * forward_ns * samples));
    work.costs.push_back(exact(CostKind::kOperatorStoredBytes, kind, samples, stored * samples));
    work.costs.push_back(exact(CostKind::kOperatorWorkingBytes, kind, samples, (std::int64_t{1} << 20) * samples));
  }
  work.costs.push_back(exact(CostKind::kOptimizerStep, kind, 0, 500000));
}

}  // namespace

Workload gpt(std::int32_t layers, std::int32_t devices, std::int32_t batch) {
  Workload work;
  work.model.name = "gpt";
  work.model.global_batch = batch;
  add_operator(work, "embedding", 0, 48 << 20);
  for (std::int32_t i = 0; i < layers; ++i) {
    add_operator(work, "attention", i, 4 << 20);
    add_operator(work, "feedforward", i, 8 << 20);
  }
  add_operator(work, "head", layers - 1, 48 << 20);
  measure(work, "embedding", 300000, 2 << 20);
  measure(work, "attention", 2000000, 7 << 20);
  measure(work, "feedforward", 2600000, 5 << 20);
  measure(work, "head", 4000000, 9 << 20);
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{1} << 32}) {
    Cost send = exact(CostKind::kPointToPoint, "send_recv", 0, 100000 + bytes / 4);
    send.key.bytes = bytes;
    work.costs.push_back(send);
    for (std::int32_t group = 2; group <= devices; ++group) {
      Cost reduce = exact(CostKind::kCollective, "all_reduce", 0, 200000 + bytes / 2);
      reduce.key.bytes = bytes;
      reduce.key.group_size = group;
      work.costs.push_back(reduce);
    }
  }
  Cost process = exact(CostKind::kProcessBytes, "process", 0, 100 << 20);
  work.costs.push_back(process);
  Node node;
  node.name = "n0";
  node.devices = devices;
  node.memory_bytes = (Bytes{600} << 20) * (layers / 24 + 1) * 4 / devices;
  work.cluster.nodes = {node};
  return work;
}

Workload gpt_operators(std::int32_t layers, std::int32_t nodes, std::int32_t batch, bool measured_links) {
  Workload work;
  work.model.name = "gpt-operators";
  work.model.global_batch = batch;
  const char* const kinds[] = {"layernorm", "qkv",   "score",     "softmax",  "dropout", "context", "dense",
                               "post",      "norm2", "mlp-gemm1", "mlp-gelu", "gemm2",   "post2"};
  const bool weights[] = {true, true, false, false, false, false, true, false, true, true, false, true, false};
  add_operator(work, "embedding", 0, 200 << 20);
  for (std::int32_t i = 0; i < layers; ++i) {
    for (std::size_t k = 0; k < std::size(kinds); ++k) add_operator(work, kinds[k], i, weights[k] ? 24 << 20 : 0);
  }
  add_operator(work, "final-norm", layers - 1, 0);
  add_operator(work, "head", layers - 1, 200 << 20);
  std::int64_t number = 0;
  std::vector<std::string> names{"embedding", "final-norm", "head"};
  names.insert(names.end(), std::begin(kinds), std::end(kinds));
  for (const std::string& name : names) {
    const std::size_t before = work.costs.size();
    ++number;
    measure(work, name, 200000 + 37000 * number, (48 << 20) * (1 + number % 5));
    const std::size_t after = work.costs.size();
    for (std::int32_t tp = 2; tp <= 8; tp *= 2) {
      for (std::size_t i = before; i < after; ++i) {
        Cost cost = exact(work.costs[i].key.kind, name, work.costs[i].key.samples,
                          static_cast<std::int64_t>(work.costs[i].statistics.mean()) / tp + 20000);
        cost.key.tp = tp;
        if (cost.key.kind != CostKind::kOptimizerStep) work.costs.push_back(cost);
      }
    }
  }
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{1} << 32}) {
    if (!measured_links) break;
    Cost send = exact(CostKind::kPointToPoint, "send_recv", 0, 100000 + bytes / 40);
    send.key.bytes = bytes;
    work.costs.push_back(send);
    for (std::int32_t group = 2; group <= 8; group *= 2) {
      for (const char* const primitive : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}) {
        Cost collective = exact(CostKind::kCollective, primitive, 0, 200000 + bytes / 20);
        collective.key.bytes = bytes;
        collective.key.group_size = group;
        work.costs.push_back(collective);
      }
    }
  }
  work.costs.push_back(exact(CostKind::kProcessBytes, "process", 0, 100 << 20));
  for (std::int32_t n = 0; n < nodes; ++n) {
    Node node;
    node.name = "n" + std::to_string(n);
    node.devices = 8;
    node.memory_bytes = (Bytes{29} << 30) * std::max(1, layers / nodes / 24);
    work.cluster.nodes.push_back(node);
  }
  work.cluster.links = {{"intra_node", std::nullopt, 2e11, 5}, {"inter_node", std::nullopt, 2e10, 10}};
  return work;
}

}  // namespace trimtab::tuner::test
