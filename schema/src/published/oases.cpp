// Oases' published profile as costs, and the settings of its paper (table III) as models and clusters: one profile for
// each hidden size, and the settings whose hidden size was profiled.

#include <cmath>
#include <tuple>

#include "published/csv_table.hpp"
#include "published/formats.hpp"
#include "published/measured.hpp"

namespace trimtab::published {
namespace {

constexpr const char* kRepository = "https://github.com/lucasleesw/oases";
constexpr const char* kCommit = "9331a2c";
constexpr const char* kSource = "import:lucasleesw/oases@9331a2c";
constexpr const char* kAuthors =
    "S. Li, Z. Lai, D. Li, Y. Hao, W. Liu, K. Ge, X. Deng, K. Lu: Automated Tensor Model Parallelism with Overlapped "
    "Communication (Oases)";
constexpr const char* kFile = "profile_3090.csv";
constexpr std::int64_t kSequence = 1024;
constexpr std::int64_t kElement = 4;      // bytes, float32
constexpr std::int64_t kKeptTensors = 3;  // of [sequence, samples, hidden], that the planner counts for half a layer
constexpr double kGradientCopies = 1;     // of the parameters
constexpr double kOptimizerCopies = 3;    // two moments, and one that the planner counts to spare
constexpr std::int32_t kDevicesPerNode = 4;
constexpr Bytes kDeviceMemory = 25447170048;  // an RTX 3090, of which the planner uses 95 %

// A row as it stands in the file. Times in ms, one sub-batch or one batch of `samples` sequences of 1,024 tokens on one
// tensor-parallel group, float32.
struct Row {
  std::int32_t hidden = 0;
  std::int32_t tp = 1;
  std::int32_t samples = 1;
  double attention_forward_ms = 0, attention_backward_ms = 0;  // without communication and recompute
  double mlp_forward_ms = 0, mlp_backward_ms = 0;
  double all_reduce_ms = 0;       // of one [sequence, samples, hidden] tensor
  double runtime_buffer_mib = 0;  // rise of the peak in the first backward pass
};

constexpr std::int64_t kMostHidden = 1 << 20;
constexpr std::int64_t kMostRanks = 65536;
constexpr std::int64_t kMostSamples = 1 << 20;
constexpr double kLeast = 1e-6;
constexpr double kMostMs = 1e9;
constexpr double kMostMib = 1e9;

struct Column {
  const char* name;
  double Row::*value;
  double most;
};

constexpr Column kMeasured[] = {{"attn_fwd_ms", &Row::attention_forward_ms, kMostMs},
                                {"attn_bwd_ms", &Row::attention_backward_ms, kMostMs},
                                {"mlp_fwd_ms", &Row::mlp_forward_ms, kMostMs},
                                {"mlp_bwd_ms", &Row::mlp_backward_ms, kMostMs},
                                {"allreduce_ms", &Row::all_reduce_ms, kMostMs},
                                {"runtime_peak_increase_mib", &Row::runtime_buffer_mib, kMostMib}};

// A row with valid = 0 was not measured, must be empty, and is left out.
Result<std::vector<Row>> read_rows(const std::string& directory) {
  TRIMTAB_TRY(const TextFile file, read_text_file(directory, kFile));
  std::vector<std::string_view> columns{"hidden_size", "tp_degree", "micro_batch", "valid"};
  for (const Column& column : kMeasured) columns.emplace_back(column.name);
  std::vector<Row> rows;
  Once<std::tuple<std::int32_t, std::int32_t, std::int32_t>> once;
  TRIMTAB_TRY_STATUS(each_row(file, columns, [&](CsvRow& in) {
    Row row;
    row.hidden = static_cast<std::int32_t>(in.integer("hidden_size", 1, kMostHidden));
    row.tp = static_cast<std::int32_t>(in.integer("tp_degree", 1, kMostRanks));
    row.samples = static_cast<std::int32_t>(in.integer("micro_batch", 1, kMostSamples));
    once.check(in, {row.hidden, row.tp, row.samples});
    const bool valid = in.flag("valid");
    for (const Column& column : kMeasured) {
      if (valid) row.*column.value = in.number(column.name, kLeast, column.most);
      if (!valid && !in.empty(column.name)) in.fail(column.name, "nothing in a row that is not valid");
    }
    if (valid) rows.push_back(row);
  }));
  if (rows.empty()) return bad_input(file.path + ": expected at least one row with valid = 1, found none");
  return rows;
}

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

std::int64_t ns(double ms) {
  return std::llround(ms * 1e6);
}

// An operator's times at tp > 1 contain its collectives: the profile has both apart, so they are added.
void add_operator(const Row& row, Half half, std::vector<Cost>& costs) {
  const bool attention = half == Half::kAttention;
  const std::int64_t collective = row.tp > 1 ? ns(row.all_reduce_ms) : 0;
  const auto add = [&](CostKind kind, std::int64_t value) {
    costs.push_back(measured(operator_key(kind, cost_key(row.hidden, half), "float32", row.samples, row.tp), value));
  };
  add(CostKind::kOperatorForward, ns(attention ? row.attention_forward_ms : row.mlp_forward_ms) + collective);
  add(CostKind::kOperatorBackward, ns(attention ? row.attention_backward_ms : row.mlp_backward_ms) + collective);
  add(CostKind::kOperatorWorkingBytes, std::llround(row.runtime_buffer_mib * kMib));
  add(CostKind::kOperatorParameterBytes, parameter_bytes(row.hidden, half, row.tp));
}

void add_row(const Row& row, std::vector<Cost>& costs) {
  add_operator(row, Half::kAttention, costs);
  add_operator(row, Half::kMlp, costs);
  const std::int64_t bytes = kElement * kSequence * row.samples * row.hidden;
  costs.push_back(
      measured(link_key(CostKind::kCollective, "all_reduce", "float32", bytes, row.tp, row.tp > kDevicesPerNode),
               ns(row.all_reduce_ms)));
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
  op.shape = {{"hidden", setting.hidden}, {"sequence", kSequence}};
  op.parameter_bytes = parameter_bytes(setting.hidden, half, 1);
  op.output_bytes = kElement * kSequence * setting.hidden;
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
  const Bytes memory = kDeviceMemory / 20 * 19 + kDeviceMemory % 20 * 19 / 20;
  return {equal_nodes(devices / kDevicesPerNode, {"", fingerprint, kDevicesPerNode, memory}),
          {{"intra_node", {}, 0, 0}, {"inter_node", {}, 0, 0}}};
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

Result<Published> read_oases(const std::string& directory) {
  TRIMTAB_TRY(const std::vector<Row> rows, read_rows(directory));
  std::map<std::int32_t, std::vector<Cost>> by_hidden;
  for (const Row& row : rows) add_row(row, by_hidden[row.hidden]);
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
    out.remarks.push_back(std::string(setting.name) + ": " + kFile + " has no row of hidden size " +
                          std::to_string(setting.hidden) + ": no documents");
  }
  out.remarks.emplace_back(
      "all-reduces were measured over all 32 GPUs whatever the degree; they stand under the degree's group, as the "
      "planner reads them");
  return out;
}

}  // namespace trimtab::published
