#include "published/oases_documents.hpp"

#include <cmath>
#include <map>

#include "schema/hash64.hpp"

namespace trimtab::published {
namespace {

constexpr const char* kRepository = "https://github.com/lucasleesw/oases";
constexpr const char* kCommit = "9331a2c";
constexpr const char* kSource = "import:lucasleesw/oases@9331a2c";
constexpr const char* kAuthors =
    "S. Li, Z. Lai, D. Li, Y. Hao, W. Liu, K. Ge, X. Deng, K. Lu: Automated Tensor Model Parallelism with Overlapped "
    "Communication (Oases)";
constexpr std::int64_t kElement = 4;      // bytes, float32
constexpr std::int64_t kKeptTensors = 3;  // of [sequence, samples, hidden], that the planner counts for half a layer
constexpr double kGradientCopies = 1;     // of the parameters
constexpr double kOptimizerCopies = 3;    // two moments, and one that the planner counts to spare
constexpr std::int32_t kDevicesPerNode = 4;
constexpr Bytes kDeviceMemory = 25447170048;  // an RTX 3090, of which the planner uses 95 %

// Table III.
struct Setting {
  const char* name;
  std::int32_t hidden;
  std::int32_t layers;
  std::int32_t global_batch;
};
constexpr Setting kSettings[] = {
    {"bert-large", 1024, 24, 256}, {"bert-1_3B", 2048, 24, 128}, {"gpt-8_3B", 3072, 24, 32}, {"llama-7B", 4096, 16, 32},
    {"gptneox", 6144, 16, 8},      {"llama-65B", 8192, 8, 8},    {"gpt-3", 12288, 4, 8}};
constexpr std::int32_t kClusterSizes[] = {8, 16, 32};
constexpr std::int32_t kProfiled = 32;  // devices

enum class Half : std::uint8_t { kAttention, kMlp };

const char* name_of(Half half) {
  return half == Half::kAttention ? "attention" : "mlp";
}

std::string cost_key(std::int32_t hidden, Half half) {
  return "oases-h" + std::to_string(hidden) + "/" + name_of(half);
}

// The planner's count: matrices are split, biases and norms are not.
Bytes parameter_bytes(std::int64_t hidden, Half half, std::int64_t tp) {
  return half == Half::kAttention ? kElement * (4 * hidden * hidden / tp + 6 * hidden)
                                  : kElement * (8 * hidden * hidden / tp + 7 * hidden);
}

Cost one(CostKey key, std::int64_t value) {
  Cost cost;
  cost.key = canonical(std::move(key));
  cost.statistics.add(value);
  return cost;
}

std::int64_t ns(double ms) {
  return std::llround(ms * 1e6);
}

// An operator's times at tp > 1 contain its collectives: the profile has both apart, so they are added.
void add_operator(const OasesRow& row, Half half, std::vector<Cost>& costs) {
  const bool attention = half == Half::kAttention;
  const std::int64_t collective = row.tp > 1 ? ns(row.all_reduce_ms) : 0;
  const auto add = [&](CostKind kind, std::int64_t value) {
    costs.push_back(
        one({kind, cost_key(row.hidden, half), "float32", row.samples, row.tp, "default", 0, 0, ""}, value));
  };
  add(CostKind::kOperatorForward, ns(attention ? row.attention_forward_ms : row.mlp_forward_ms) + collective);
  add(CostKind::kOperatorBackward, ns(attention ? row.attention_backward_ms : row.mlp_backward_ms) + collective);
  add(CostKind::kOperatorWorkingBytes, std::llround(row.runtime_buffer_mib * 1048576));
  add(CostKind::kOperatorParameterBytes, parameter_bytes(row.hidden, half, row.tp));
}

void add_row(const OasesRow& row, std::vector<Cost>& costs) {
  add_operator(row, Half::kAttention, costs);
  add_operator(row, Half::kMlp, costs);
  const std::int64_t bytes = kElement * kOasesSequence * row.samples * row.hidden;
  const char* placement = row.tp > kDevicesPerNode ? "inter_node" : "intra_node";
  costs.push_back(one({CostKind::kCollective, "all_reduce", "float32", 0, 1, "default", bytes, row.tp, placement},
                      ns(row.all_reduce_ms)));
}

std::string digest(const std::vector<Cost>& costs) {
  std::string text;
  for (const Cost& cost : costs) text += describe(cost.key) + "=" + cost.statistics.encode() + "\n";
  return hash64_hex(text);
}

Fingerprint fingerprint_of(std::int32_t hidden, const std::vector<Cost>& costs) {
  Fingerprint fingerprint;
  fingerprint.device = {{"testbed", "oases-3090"}, {"gpu", "RTX 3090"}};
  fingerprint.fabric = {{"nodes", "8"}, {"gpus", "4"}};
  fingerprint.environment = {{"profile", "h" + std::to_string(hidden)},
                             {"published_by", kAuthors},
                             {"repository", kRepository},
                             {"commit", kCommit},
                             {"file", "benchmark/profile/profile_result_3090.pt"},
                             {"licence", "Apache-2.0"},
                             {"digest", digest(costs)},
                             {"all_reduce", "measured over all 32 GPUs whatever the degree"},
                             {"parameter_bytes", "by the planner's formula"}};
  return fingerprint;
}

Operator operator_of(const Setting& setting, std::int32_t layer, Half half) {
  Operator op;
  op.name = "layer" + std::to_string(layer) + "-" + name_of(half);
  op.kind = name_of(half);
  op.layer = layer;
  op.cost_key = cost_key(setting.hidden, half);
  op.shape = {{"hidden", setting.hidden}, {"sequence", kOasesSequence}};
  op.parameter_bytes = parameter_bytes(setting.hidden, half, 1);
  op.output_bytes = kElement * kOasesSequence * setting.hidden;
  op.activation_bytes = kKeptTensors * op.output_bytes;
  return op;
}

Model model_of(const Setting& setting) {
  Model model;
  model.name = std::string("oases-") + setting.name;
  model.global_batch = setting.global_batch;
  model.dtype = "float32";
  model.microbatch_total = {setting.global_batch};
  model.gradient_bytes_per_parameter_byte = kGradientCopies;
  model.optimizer_bytes_per_parameter_byte = kOptimizerCopies;
  for (std::int32_t layer = 0; layer < setting.layers; ++layer) {
    model.operators.push_back(operator_of(setting, layer, Half::kAttention));
    model.operators.push_back(operator_of(setting, layer, Half::kMlp));
  }
  return model;
}

Cluster cluster_of(std::int32_t devices, const std::string& fingerprint) {
  Cluster cluster;
  for (std::int32_t i = 0; i < devices / kDevicesPerNode; ++i) {
    Node node;
    node.name = "n" + std::to_string(i);
    node.fingerprint = fingerprint;
    node.devices = kDevicesPerNode;
    node.memory_bytes = kDeviceMemory / 20 * 19 + kDeviceMemory % 20 * 19 / 20;
    cluster.nodes.push_back(std::move(node));
  }
  cluster.links.push_back({"intra_node", {}, 0, 0});
  cluster.links.push_back({"inter_node", {}, 0, 0});
  return cluster;
}

std::string cluster_file(const Setting& setting, std::int32_t devices) {
  const std::string size = devices == kProfiled ? "" : "-" + std::to_string(devices) + "x";
  return std::string("oases-") + setting.name + size + ".cluster.json";
}

void add_setting(const Setting& setting, const std::string& fingerprint, Published& out) {
  Model model = model_of(setting);
  out.models.push_back({model.name + ".json", std::move(model)});
  for (const std::int32_t devices : kClusterSizes) {
    out.clusters.push_back({cluster_file(setting, devices), cluster_of(devices, fingerprint)});
  }
}

}  // namespace

Published oases_documents(const std::vector<OasesRow>& rows) {
  std::map<std::int32_t, std::vector<Cost>> by_hidden;
  for (const OasesRow& row : rows) add_row(row, by_hidden[row.hidden]);
  Published out;
  std::map<std::int32_t, std::string> fingerprints;
  for (auto& [hidden, costs] : by_hidden) {
    const Fingerprint fingerprint = fingerprint_of(hidden, costs);
    fingerprints[hidden] = hash(fingerprint);
    out.costs.push_back({fingerprint, kSource, "import:oases/" + hash(fingerprint), std::move(costs)});
  }
  for (const Setting& setting : kSettings) {
    const auto profiled = fingerprints.find(setting.hidden);
    if (profiled != fingerprints.end()) {
      add_setting(setting, profiled->second, out);
      continue;
    }
    out.remarks.push_back(std::string(setting.name) + ": " + kOasesFile + " has no row of hidden size " +
                          std::to_string(setting.hidden) + ": no documents");
  }
  out.remarks.emplace_back(
      "all-reduces were measured over all 32 GPUs whatever the degree; they stand under the degree's group, as the "
      "planner reads them");
  return out;
}

}  // namespace trimtab::published
