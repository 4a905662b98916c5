#include "published/galvatron/operators.hpp"

#include <algorithm>
#include <cmath>

namespace trimtab::published {

namespace {

constexpr double kMib = 1048576;

// Embedding or head as an operator: parameters by the states that were published, a product with each of them for a
// head, an addition for each element of what an embedding gives.
Operator end_operator(const Model& model, const Operator& neighbour, bool head, double states_mib,
                      double activation_mib) {
  const std::int64_t width = model.dtype == "float32" ? 4 : 2;
  Operator op;
  op.name = op.kind = head ? "head" : "embedding";
  op.layer = neighbour.layer;
  op.cost_key = neighbour.cost_key.substr(0, neighbour.cost_key.find('/')) + "/" + op.kind;
  op.parameter_bytes = std::llround(states_mib / 4 * kMib * static_cast<double>(width) / 4);
  op.output_bytes = head ? 0 : neighbour.output_bytes;
  op.activation_bytes = std::max<Bytes>(op.output_bytes, std::llround(activation_mib * kMib));
  const std::int64_t sequence = neighbour.shape.at("sequence");
  op.forward_flops = head ? 2 * op.parameter_bytes / width * sequence : neighbour.output_bytes / width;
  return op;
}

// For transfers that nobody measured: two neighbours reduce as many bytes as they would send.
Link link_of(const GalvatronTables& tables, const GalvatronProfile& profile, bool inter_node) {
  Link link;
  link.level = inter_node ? "inter_node" : "intra_node";
  const double ms_per_mib = inter_node ? 0 : pair_ms_per_mib(tables, profile.commit, profile.shape);
  if (ms_per_mib > 0) link.bandwidth_bytes_per_s = kMib / ms_per_mib * 1000;
  return link;
}

}  // namespace

Operator galvatron_operator(const GalvatronLayer& layer, std::int32_t index) {
  Operator op;
  op.name = "layer" + std::to_string(index);
  op.kind = layer.kind;
  op.layer = index;
  op.cost_key = layer.cost_key;
  op.shape = {{"sequence", layer.sequence}, {"hidden", layer.hidden}};
  const int width = layer.dtype == "float32" ? 4 : 2;
  op.parameter_bytes = std::llround(layer.parameter_mib * kMib * width / 4);
  op.activation_bytes = std::llround(layer.activation_mib[0] * kMib);
  op.output_bytes = layer.sequence * layer.hidden * width;
  op.forward_flops = 2 * op.parameter_bytes / width * layer.sequence;
  op.tensor_all_reduces = layer.kind == "decoder_layer" ? 3 : 2;
  return op;
}

Model with_galvatron_ends(const Model& layers) {
  const GalvatronFacts& facts = *layers.galvatron;
  Model model = layers;
  model.name += "-whole";
  model.galvatron.reset();
  const double first = std::max(0.0, facts.whole.activation_mib - facts.last.activation_mib);
  model.operators.insert(model.operators.begin(),
                         end_operator(layers, layers.operators.front(), false, facts.first.states_mib, first));
  model.operators.push_back(
      end_operator(layers, layers.operators.back(), true, facts.last.states_mib, facts.last.activation_mib));
  return model;
}

Cluster galvatron_cluster(const GalvatronTables& tables, const GalvatronProfile& profile, Bytes memory) {
  Cluster cluster;
  for (std::int32_t i = 0; i < profile.shape.nodes; ++i) {
    Node node;
    node.name = "n" + std::to_string(i);
    node.fingerprint = hash(profile.published.fingerprint);
    node.devices = profile.shape.devices_per_node;
    node.memory_bytes = memory;
    cluster.nodes.push_back(std::move(node));
  }
  cluster.links.push_back(link_of(tables, profile, false));
  if (profile.shape.nodes > 1) cluster.links.push_back(link_of(tables, profile, true));
  return cluster;
}

}  // namespace trimtab::published
