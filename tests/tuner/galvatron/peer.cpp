#include "peer.hpp"
#include "papers/cost_models.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "skipping.hpp"

namespace trimtab::tuner::galvatron::peer {
namespace {

using Json = nlohmann::json;

std::string directory() {
  const char* const set = std::getenv("TRIMTAB_PEERS");
  return std::string(set != nullptr ? set : TRIMTAB_SOURCE_DIR "/../shared/peers") + "/galvatron";
}

[[noreturn]] void die(const std::string& message) {
  std::cerr << message << "\n";
  std::exit(1);
}

const Json& results() {
  static const Json kResults = [] {
    std::ifstream in(directory() + "/peer_results.json");
    return Json::parse(in);
  }();
  return kResults;
}

std::string v1_name(const Json& run) {
  const Json& options = run.at("options");
  const std::string model = run.at("model");
  const auto count = [&](const char* name) { return std::to_string(options.at(name).get<int>()); };
  if (model == "bert" || model == "vit") return model + "-huge-" + count("layer_num");
  if (model == "t5") return "t5-large-" + std::to_string(2 * options.at("layer_num_encoder").get<int>());
  return "swin-huge-" + std::to_string(options.at("layer_nums")[2].get<int>() + 6);
}

std::vector<std::vector<std::string>> stages_of(const Json& plan) {
  std::vector<std::vector<std::string>> stages;
  for (const Json& stage : plan) stages.push_back(stage.get<std::vector<std::string>>());
  return stages;
}

Answer v1_answer(const Json& run) {
  Answer answer;
  answer.version = "v1";
  answer.model = v1_name(run);
  answer.nodes = run.at("gpus") == 16 ? 2 : 1;
  answer.gib = run.at("memory_GB");
  answer.cpu_seconds = run.at("cpu_s");
  for (const Json& rate : run.at("throughput_by_batch"))
    answer.rates.emplace_back(rate[0].get<int>(), rate[1].get<double>());
  if (run.at("time_cost_s").is_null()) return answer;
  answer.seconds = run.at("time_cost_s");
  answer.batch = run.at("best_bsz");
  answer.microbatches = run.at("config").at("chunks");
  answer.stages = stages_of(run.at("plan"));
  // One stage stands for all where layers are of one kind.
  const int stages = run.at("pp");
  while (static_cast<int>(answer.stages.size()) < stages) answer.stages.push_back(answer.stages.front());
  return answer;
}

Answer v2_answer(const Json& run) {
  Answer answer;
  answer.version = "v2";
  answer.model = run.at("model");
  answer.nodes = run.at("nodes");
  answer.devices_per_node = run.at("gpus_per_node");
  answer.gib = run.at("memory_GB");
  for (const auto& [name, value] : run.at("options").items()) {
    answer.options += (answer.options.empty() ? "" : " ") + (value.is_string() ? value.get<std::string>() : name);
  }
  answer.batch = run.at("best_bsz");
  answer.microbatches = run.at("chunks");
  answer.seconds = run.at("time_cost_s");
  answer.cpu_seconds = run.at("cpu_s");
  answer.stages = stages_of(run.at("plan"));
  answer.memory_mib = run.at("mem_cost_MB").get<std::vector<std::int32_t>>();
  for (const Json& rate : run.at("throughput_by_batch"))
    answer.rates.emplace_back(rate[0].get<int>(), rate[1].get<double>());
  return answer;
}

std::vector<std::string> split(const std::string& line, char by) {
  std::vector<std::string> cells;
  std::stringstream in(line);
  for (std::string cell; std::getline(in, cell, by);) cells.push_back(cell);
  return cells;
}

// "2-2*-2f x15".
struct Run {
  std::int32_t tp = 1, dp = 1, count = 1;
  bool tp_consecutive = true, sharded = false, recompute = false;
};

Run parse_run(const std::string& text) {
  Run run;
  const std::size_t space = text.find(" x");
  run.count = std::atoi(text.c_str() + space + 2);
  const std::vector<std::string> parts = split(text.substr(0, space), '-');
  run.tp = std::atoi(parts.at(1).c_str());
  run.dp = std::atoi(parts.at(2).c_str());
  run.sharded = parts[2].find('f') != std::string::npos;
  run.tp_consecutive = parts[2].find('*') == std::string::npos;
  run.recompute = parts.size() > 3 && parts[3] == "c";
  return run;
}

}  // namespace

std::string Answer::name() const {
  return version + " " + model + ", " + std::to_string(devices()) + " x " + std::to_string(gib) + " GiB" +
         (options.empty() ? "" : ", " + options);
}

const Published* published() {
  static const std::optional<Published> kPublished = []() -> std::optional<Published> {
    if (!std::filesystem::exists(directory() + "/sources.csv")) return std::nullopt;
    Result<Published> read = read_published("galvatron", {directory()});
    if (!read.ok()) die(read.error().message);
    return std::move(read).value();
  }();
  if (!kPublished) trimtab::test::skip("published profiles are not at " + directory() + " (set TRIMTAB_PEERS)");
  return kPublished ? &*kPublished : nullptr;
}

const std::vector<Answer>& answers() {
  static const std::vector<Answer> kAnswers = [] {
    std::vector<Answer> all;
    for (const Json& run : results().at("runs").at("v1")) {
      // One setting was searched again without compiled code.
      if (run.at("engine").get<std::string>().ends_with("+cpp dp")) all.push_back(v1_answer(run));
    }
    for (const Json& run : results().at("runs").at("v2_0")) all.push_back(v2_answer(run));
    // Two settings were searched twice, to the same answer.
    std::set<std::string> seen;
    std::erase_if(all, [&seen](const Answer& answer) { return !seen.insert(answer.name()).second; });
    return all;
  }();
  return kAnswers;
}

const std::vector<PartitionAnswer>& partition_answers() {
  static const std::vector<PartitionAnswer> kAnswers = [] {
    std::vector<PartitionAnswer> all;
    for (const Json& run : results().at("partition_headroom_under_peer_v20_model")) {
      const Json& setting = run.at("case");
      PartitionAnswer answer;
      answer.model = setting.at("model");
      answer.gib = setting.at("mem");
      answer.batch = setting.at("bsz");
      const int replicas = 8 / run.at("pp").get<int>();
      answer.microbatches =
          std::min<int>(setting.at("mc").get<int>(), answer.batch / replicas / setting.at("mbs").get<int>());
      answer.even_seconds = run.at("even_cost");
      answer.best_seconds = run.at("best_cost");
      answer.even = stages_of(run.at("even_plan"));
      answer.best = stages_of(run.at("best_plan"));
      all.push_back(std::move(answer));
    }
    return all;
  }();
  return kAnswers;
}

const std::vector<Measurement>& measurements() {
  static const std::vector<Measurement> kMeasurements = [] {
    std::vector<Measurement> all;
    std::ifstream in(directory() + "/predicted_vs_measured_v1.csv");
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      std::vector<std::string> cells = split(line, ',');
      cells.resize(9);
      if (cells[6] == "OOM" || cells[4] == "OOM") continue;
      Measurement row;
      row.devices = std::atoi(cells[1].c_str());
      row.gib = std::atoi(cells[2].c_str());
      for (const char c : cells[3]) row.model += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      row.peer_rate = std::atof(cells[4].c_str());
      row.peer_batch = std::atoi(cells[5].c_str());
      row.rate = std::atof(cells[6].c_str());
      row.batch = std::atoi(cells[7].c_str());
      all.push_back(std::move(row));
    }
    return all;
  }();
  return kMeasurements;
}

namespace {

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::optional<System> system_named(const std::string& name) {
  if (name == "PyTorch DDP (DP)") return System::kReplicas;
  if (name == "FSDP/ZeRO-3 (SDP)") return System::kSharded;
  if (name == "Megatron (TP)") return System::kTensor;
  if (name == "Galvatron (DP+TP)") return System::kReplicasAndTensor;
  if (name == "Galvatron (DP+PP)") return System::kReplicasAndPipeline;
  return std::nullopt;
}

bool is_published(const std::string& model) {
  return std::any_of(published()->models.begin(), published()->models.end(),
                     [&](const PublishedModel& one) { return one.model.name == model; });
}

struct PaperRow {
  std::string system;
  bool titan = false;
  SystemMeasurement of;  // all but the system
};

// Those that were measured.
std::vector<PaperRow> paper_rows() {
  std::vector<PaperRow> all;
  std::ifstream in(directory() + "/paper_measured_throughput.csv");
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::vector<std::string> cells = split(line, ',');
    cells.resize(7);
    PaperRow row{cells[3], cells[1].find("TITAN") != std::string::npos, {}};
    row.of.devices = cells[1].starts_with("16x") ? 16 : 8;
    row.of.gib = std::atoi(cells[2].c_str());
    row.of.model = lower(cells[4]);
    row.of.rate = std::atof(cells[5].c_str());
    row.of.batch = std::atoi(cells[6].c_str());
    if (row.of.rate > 0 && row.of.batch > 0) all.push_back(std::move(row));
  }
  return all;
}

std::vector<SystemMeasurement> titan_measurements() {
  std::vector<SystemMeasurement> all;
  for (PaperRow& row : paper_rows()) {
    const std::optional<System> system = system_named(row.system);
    if (!system || !row.titan || !is_published(row.of.model)) continue;
    if (system == System::kTensor && row.of.devices > 8) continue;
    row.of.system = *system;
    all.push_back(std::move(row.of));
  }
  return all;
}

std::vector<SystemMeasurement> titan_measurements_of(bool galvatron) {
  std::vector<SystemMeasurement> all = titan_measurements();
  std::erase_if(all, [&](const SystemMeasurement& row) {
    const bool own = row.system == System::kReplicasAndTensor || row.system == System::kReplicasAndPipeline;
    return own != galvatron;
  });
  return all;
}

}  // namespace

const std::vector<SystemMeasurement>& system_measurements() {
  static const std::vector<SystemMeasurement> kMeasurements = titan_measurements_of(false);
  return kMeasurements;
}

const std::vector<SystemMeasurement>& limited_measurements() {
  static const std::vector<SystemMeasurement> kMeasurements = titan_measurements_of(true);
  return kMeasurements;
}

OwnRows own_rows() {
  OwnRows rows;
  for (const PaperRow& row : paper_rows()) {
    if (!row.system.starts_with("Galvatron")) continue;
    ++rows.measured;
    if (!row.titan) {
      ++rows.other_gpus;
    } else if (!is_published(row.of.model)) {
      ++rows.other_models;
    } else if (row.system != "Galvatron" && !system_named(row.system)) {
      ++rows.recompute;
    }
  }
  return rows;
}

Model model_of(const std::string& name, std::int32_t batch) {
  for (const PublishedModel& one : published()->models) {
    if (one.model.name != name) continue;
    Model model = one.model;
    model.global_batch = batch;
    return model;
  }
  die("no published model " + name);
}

Cluster cluster_of(const Model& model, std::int32_t nodes, std::int32_t devices_per_node, std::int32_t gib) {
  for (const PublishedCluster& one : published()->clusters) {
    const bool same = one.file.starts_with(model.name) &&
                      static_cast<std::int32_t>(one.cluster.nodes.size()) == nodes &&
                      one.cluster.nodes.front().devices == devices_per_node;
    if (!same) continue;
    Cluster cluster = one.cluster;
    for (Node& node : cluster.nodes) node.memory_bytes = Bytes{gib} << 30;
    return cluster;
  }
  die("no published cluster of " + model.name);
}

const std::vector<Cost>& costs_of(const Cluster& cluster) {
  for (const PublishedCosts& one : published()->costs) {
    if (hash(one.fingerprint) == cluster.nodes.front().fingerprint) return one.costs;
  }
  die("no published costs of " + cluster.nodes.front().fingerprint);
}

std::unique_ptr<CostModel> cost_model_of(const std::string& name, const Model& model, const Cluster& cluster,
                                         bool allow_estimates) {
  auto built = make_cost_model(name, model, cluster, costs_of(cluster), {allow_estimates});
  if (!built.ok()) die(built.error().message);
  return std::move(built).value();
}

Plan plan_of(const Model& model, std::int32_t devices, const std::vector<std::vector<std::string>>& stages,
             std::int32_t microbatches, bool shared_states) {
  Plan plan;
  plan.model = model.name;
  plan.global_batch = model.global_batch;
  plan.microbatch = model.global_batch / microbatches;
  std::int32_t layer = 0;
  std::int32_t device = 0;
  for (const std::vector<std::string>& runs : stages) {
    Stage& stage = plan.stages.emplace_back();
    for (std::size_t d = 0; d < static_cast<std::size_t>(devices) / stages.size(); ++d)
      stage.devices.push_back(device++);
    for (const std::string& text : runs) {
      const Run run = parse_run(text);
      Segment& segment = stage.segments.emplace_back();
      segment.operators = {layer, layer + run.count};
      layer += run.count;
      segment.dp = run.dp;
      segment.tp = run.tp;
      segment.tp_consecutive = run.tp_consecutive;
      if (run.dp > 1 && shared_states) segment.sharded = ShardedLevel::kGradients;
      if (run.sharded) segment.sharded = ShardedLevel::kParameters;
      if (run.recompute) segment.recompute = {segment.operators};
    }
  }
  return plan;
}

}  // namespace trimtab::tuner::galvatron::peer
