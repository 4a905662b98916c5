#include "aceso_peer.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "skipping.hpp"

namespace trimtab::tuner::peer {
namespace {

using Json = nlohmann::ordered_json;
using CsvRow = std::map<std::string, std::string>;

std::vector<std::string> split(const std::string& line, char by) {
  std::vector<std::string> fields;
  std::stringstream in(line);
  for (std::string field; std::getline(in, field, by);) fields.push_back(field);
  return fields;
}

std::string text_of(const std::string& path) {
  if (!path.ends_with(".gz")) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  FILE* pipe = popen(("zcat " + path).c_str(), "r");
  std::string text;
  std::array<char, 65536> buffer;
  for (std::size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) text.append(buffer.data(), n);
  pclose(pipe);
  return text;
}

std::vector<CsvRow> csv(const std::string& path) {
  std::stringstream in(text_of(path));
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> header = split(line, ',');
  std::vector<CsvRow> rows;
  while (std::getline(in, line)) {
    std::vector<std::string> fields = split(line, ',');
    fields.resize(header.size());
    CsvRow row;
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = fields[i];
    rows.push_back(std::move(row));
  }
  return rows;
}

const std::vector<CsvRow>& cached(const std::string& path) {
  static std::map<std::string, std::vector<CsvRow>> files;
  const auto found = files.find(path);
  return found != files.end() ? found->second : files.emplace(path, csv(path)).first->second;
}

const Json& json(const std::string& path) {
  static std::map<std::string, Json> files;
  const auto found = files.find(path);
  return found != files.end() ? found->second : files.emplace(path, Json::parse(text_of(path))).first->second;
}

double number(const CsvRow& row, const std::string& field) {
  return std::atof(row.at(field).c_str());
}
std::int32_t integer(const CsvRow& row, const std::string& field) {
  return std::atoi(row.at(field).c_str());
}

Cost cost(CostKind kind, const std::string& subject, std::int64_t value) {
  Cost cost;
  cost.key.kind = kind;
  cost.key.subject = subject;
  cost.statistics.add(value);
  return cost;
}

std::string key_of(const Json& list, const std::string& op) {
  return list.at("profile_model").get<std::string>() + "-" + list.at("profile_size").get<std::string>() + "-" + op;
}

void add_operator_costs(const std::string& folder, const Json& list, World& world) {
  static const std::vector<std::pair<CostKind, const char*>> kColumns{
      {CostKind::kOperatorForward, "fwd_us"},
      {CostKind::kOperatorBackward, "bwd_us"},
      {CostKind::kOperatorInputBytes, "input_mib"},
      {CostKind::kOperatorOutputBytes, "output_mib"},
      {CostKind::kOperatorParameterBytes, "weight_mib"},
      {CostKind::kOperatorStoredBytes, "activation_mib"},
      {CostKind::kOperatorForwardReserveBytes, "fwd_reserved_mib"},
      {CostKind::kOperatorBackwardReserveBytes, "bwd_reserved_mib"}};
  for (const CsvRow& row : cached(folder + "/operators.csv.gz")) {
    if (row.at("db") != "eurosys" || row.at("model") != list.at("profile_model") ||
        row.at("size") != list.at("profile_size")) {
      continue;
    }
    for (const auto& [kind, column] : kColumns) {
      const double scale = unit_of(kind) == "ns" ? 1000 : 1048576;
      Cost value = cost(kind, key_of(list, row.at("op_name")), std::llround(number(row, column) * scale));
      value.key.dtype = world.model.dtype;
      value.key.samples = integer(row, "microbatch_samples");
      value.key.tp = integer(row, "tp");
      value.key.sharding = row.at("algo") == "0" ? "default" : "alternate";
      world.costs.push_back(std::move(value));
    }
  }
}

void add_communication(const std::string& folder, const Json& list, World& world) {
  for (const CsvRow& row : cached(folder + "/collectives.csv.gz")) {
    if (row.at("db") != "eurosys" || row.at("model") != list.at("profile_model") ||
        row.at("size") != list.at("profile_size") || row.at("measured") != "1") {
      continue;
    }
    Cost value = cost(CostKind::kCollective, row.at("primitive"), std::llround(number(row, "us") * 1000));
    value.key.dtype = world.model.dtype;
    value.key.group_size = integer(row, "group_size");
    value.key.bytes = std::atoll(row.at("bytes").c_str());
    value.key.placement = "intra_node";
    world.costs.push_back(std::move(value));
  }
  for (const CsvRow& row : cached(folder + "/p2p.csv")) {
    if (row.at("db") != "eurosys") continue;
    const double bytes = number(row, "bytes");
    Cost value =
        cost(CostKind::kPointToPoint, "send_recv", std::llround(bytes / (number(row, "gib_per_s") * 1073741824) * 1e9));
    value.key.bytes = static_cast<std::int64_t>(bytes);
    value.key.placement = row.at("link") == "intra-node" ? "intra_node" : "inter_node";
    world.costs.push_back(std::move(value));
  }
}

void add_operators(const Json& list, World& world) {
  std::int32_t layer = 0;
  for (const Json& block : list.at("blocks")) {
    for (int repeat = 0; repeat < block.at("repeat").get<int>(); ++repeat, ++layer) {
      for (const Json& name : block.at("ops")) {
        Operator op;
        op.name = name.get<std::string>();
        op.kind = op.name;
        op.cost_key = key_of(list, op.name);
        op.layer = layer;
        op.shardings = {"default", "alternate"};
        world.model.operators.push_back(std::move(op));
      }
    }
  }
}

std::int32_t at_run(const Json& runs, std::int32_t index) {
  for (const Json& run : runs) {
    if (index < run[1].get<std::int32_t>()) return run[0].get<std::int32_t>();
    index -= run[1].get<std::int32_t>();
  }
  return 0;
}

Stage read_stage(const Json& in, std::int32_t first_device) {
  Stage stage;
  const auto gpus = in.at("gpus").get<std::int32_t>();
  for (std::int32_t d = 0; d < gpus; ++d) stage.devices.push_back(first_device + d);
  const auto first = in.at("first_op").get<std::int32_t>();
  for (std::int32_t i = 0; i < in.at("num_ops").get<std::int32_t>(); ++i) {
    const std::int32_t op = first + i;
    const std::int32_t tp = at_run(in.at("tp"), i);
    const std::int32_t dp = at_run(in.at("dp"), i);
    if (stage.segments.empty() || stage.segments.back().tp != tp || stage.segments.back().dp != dp) {
      Segment segment;
      segment.operators = {op, op};
      segment.tp = tp;
      segment.dp = dp;
      stage.segments.push_back(segment);
    }
    Segment& segment = stage.segments.back();
    segment.operators.end = op + 1;
    if (at_run(in.at("recompute"), i) != 0) segment.recompute.push_back({op, op + 1});
    if (at_run(in.at("algo"), i) != 0) segment.alternate_dimension.push_back({op, op + 1});
  }
  for (Segment& segment : stage.segments) {
    segment.recompute = normalized(segment.recompute);
    segment.alternate_dimension = normalized(segment.alternate_dimension);
  }
  return stage;
}

PeerStage read_prices(const Json& predicted, std::size_t s) {
  const Json& in = predicted.at("per_stage")[s];
  const auto value = [&in](const char* field) { return in.at(field).get<double>(); };
  return {value("fwd_ms"),
          value("bwd_ms"),
          value("recompute_ms"),
          value("in_comm_ms"),
          value("out_comm_ms"),
          value("reshard_ms"),
          predicted.at("memory_mib")[s].get<double>(),
          predicted.at("stage_iteration_ms")[s].get<double>()};
}

}  // namespace

std::optional<std::string> folder() {
  const char* const set = std::getenv("TRIMTAB_PEERS");
  const std::string path = std::string(set != nullptr ? set : TRIMTAB_SOURCE_DIR "/../shared/peers") + "/aceso_v100";
  if (std::filesystem::exists(path + "/peer_results.json")) return path;
  trimtab::test::skip("published profiles are not at " + path + " (set TRIMTAB_PEERS)");
  return std::nullopt;
}

std::vector<Setting> settings(const std::string& folder) {
  std::vector<Setting> all;
  for (const CsvRow& row : cached(folder + "/models.csv")) {
    all.push_back({row.at("model"), row.at("size"), integer(row, "nodes"), integer(row, "gpus_per_node"),
                   number(row, "memory_limit_mib")});
  }
  return all;
}

World world(const std::string& folder, const Setting& setting) {
  World world;
  world.setting = setting;
  const Json& list = json(folder + "/op_lists.json").at(setting.model + "/" + setting.size);
  for (const CsvRow& row : cached(folder + "/models.csv")) {
    if (row.at("model") != setting.model || row.at("size") != setting.size) continue;
    world.model.name = setting.name();
    world.model.dtype = row.at("dtype");
    world.model.global_batch = integer(row, "global_batch_samples");
    for (const std::string& value : split(row.at("microbatch_values"), ' ')) {
      world.model.microbatch_total.push_back(std::atoi(value.c_str()));
    }
    world.model.microbatch_per_replica = world.model.microbatch_total;
    const double main = number(row, "main_param_multiple_of_weight");
    world.model.optimizer_bytes_per_parameter_byte = main + number(row, "optimizer_multiple_of_weight");
    world.model.aceso = AcesoFacts{main, setting.model == "scale-layer" ? Bytes{1000} << 20 : 0, setting.model != "t5",
                                   setting.model == "resnet"};
  }
  add_operators(list, world);
  add_operator_costs(folder, list, world);
  add_communication(folder, list, world);
  for (std::int32_t n = 0; n < setting.nodes; ++n) {
    Node node;
    node.name = "n" + std::to_string(n);
    node.devices = setting.devices_per_node;
    node.memory_bytes = static_cast<Bytes>(setting.memory_limit_mib * 1048576);
    world.cluster.nodes.push_back(node);
  }
  world.cluster.links = {{"intra_node", {}, 0, 0}, {"inter_node", {}, 0, 0}};
  return world;
}

std::vector<PeerResult> results(const std::string& folder) {
  std::vector<PeerResult> all;
  for (const Json& in : json(folder + "/peer_results.json").at("settings")) {
    PeerResult result;
    result.setting = {in.at("model"), in.at("size"), in.at("nodes"), in.at("gpus_per_node"), in.at("memory_limit_mib")};
    const Json& plan = in.at("best_plan");
    result.plan.model = result.setting.name();
    result.plan.global_batch = plan.at("global_batch_size");
    result.plan.microbatch = plan.at("micro_batch_size");
    std::int32_t device = 0;
    for (const Json& stage : plan.at("stages")) {
      result.plan.stages.push_back(read_stage(stage, device));
      device += stage.at("gpus").get<std::int32_t>();
      result.stages.push_back(read_prices(plan.at("predicted"), result.stages.size()));
    }
    result.iteration_ms = plan.at("predicted").at("iteration_ms");
    all.push_back(std::move(result));
  }
  return all;
}

std::vector<Optimum> optima(const std::string& folder) {
  std::vector<Optimum> all;
  for (const CsvRow& row : cached(folder + "/optimum.csv")) {
    all.push_back({row.at("model"), row.at("size"), number(row, "peer_best_ms"), number(row, "optimum_ms"),
                   row.at("kind") == "exact"});
  }
  return all;
}

}  // namespace trimtab::tuner::peer
