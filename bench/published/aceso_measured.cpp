// What Aceso's authors measured of their plans on V100s beside the native model's predictions of the same plans, time
// and memory. Prints Markdown. Needs ../shared/peers (or $TRIMTAB_PEERS).

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "../../tests/tuner/aceso_peer.hpp"
#include "../prediction_errors.hpp"
#include "papers/cost_models.hpp"
#include "schema/published.hpp"
#include "tuner/search.hpp"

using namespace trimtab;         // NOLINT
using namespace trimtab::tuner;  // NOLINT

namespace {

constexpr double kMib = 1048576;
constexpr Bytes kDeviceMemory = Bytes{32} << 30;  // of the V100s; the authors let their search use 28,000 MiB of it

struct Measured {
  double seconds = 0, mib = 0, peer_seconds = 0, peer_mib = 0;
};

std::map<std::string, Measured> measurements(const std::string& folder) {
  std::map<std::string, Measured> all;
  const auto root = nlohmann::json::parse(std::ifstream(folder + "/peer_results.json"));
  for (const auto& setting : root.at("settings")) {
    const auto& of = setting.at("published");
    if (of.at("measured_on_v100_s").is_null() || of.value("memory_mib", nlohmann::json()).is_null()) continue;
    const auto& memory = of.at("memory_mib");
    all[setting.at("model").get<std::string>() + "-" + setting.at("size").get<std::string>()] = {
        of.at("measured_on_v100_s").get<double>(), memory.at("measured").get<double>(),
        of.at("predicted_s").get<double>(),
        memory.at("predicted_normal").get<double>() + memory.at("predicted_reserved").get<double>()};
  }
  return all;
}

struct World {
  Model model;
  Cluster cluster;
  std::vector<Cost> costs;
};

World world_of(const Published& published, const std::string& name) {
  World world;
  for (const PublishedModel& of : published.models) {
    if (of.file == name + ".json") world.model = of.model;
  }
  for (const PublishedCluster& of : published.clusters) {
    if (of.file == name + ".cluster.json") world.cluster = of.cluster;
  }
  for (const PublishedCosts& of : published.costs) {
    if (hash(of.fingerprint) == world.cluster.nodes.front().fingerprint) world.costs = of.costs;
  }
  return world;
}

using bench::Errors;

const StagePrediction& fullest(const Prediction& prediction) {
  return *std::max_element(prediction.stages.begin(), prediction.stages.end(),
                           [](const auto& a, const auto& b) { return a.memory_bytes < b.memory_bytes; });
}

void print_row(const std::string& name, const Measured& real, const Prediction& of, Errors (&errors)[4]) {
  const StagePrediction& stage = fullest(of);
  const double seconds = of.iteration_ms / 1000;
  const double mib = static_cast<double>(stage.memory_bytes) / kMib;
  const auto in_mib = [](Bytes bytes) { return static_cast<double>(bytes) / kMib; };
  std::printf(
      "| %s | %.2f | %.2f | %+.1f %% | %+.1f %% | %.0f | %.0f | %+.1f %% | %+.1f %% | %.0f, %.0f, %.0f, %.0f | %s |\n",
      name.c_str(), real.seconds, seconds, errors[0].add(seconds, real.seconds),
      errors[1].add(real.peer_seconds, real.seconds), real.mib, mib, errors[2].add(mib, real.mib),
      errors[3].add(real.peer_mib, real.mib), in_mib(stage.memory.states), in_mib(stage.memory.activations),
      in_mib(stage.memory.recompute_peak), in_mib(stage.memory.reserved), of.feasible ? "yes" : "no");
}

void print_unmeasured(const std::vector<std::string>& rows) {
  std::printf(
      "\n## Plans of which only the prediction is known\n\n| setting | native, MiB | Aceso, MiB | fits "
      "|\n|---|---|---|---|\n");
  for (const std::string& row : rows) std::printf("%s\n", row.c_str());
}

std::string unmeasured_row(const std::string& name, const Prediction& of, const peer::PeerResult& result) {
  double peer = 0;
  for (const peer::PeerStage& stage : result.stages) peer = std::max(peer, stage.memory_mib);
  char text[160];
  std::snprintf(text, sizeof text, "| %s | %.0f | %.0f | %s |", name.c_str(),
                static_cast<double>(fullest(of).memory_bytes) / kMib, peer, of.feasible ? "yes" : "no");
  return text;
}

// Whether a search finds a plan that fits where the authors ran on one GPU.
void print_single_gpu(const CostModel& cost_model, const std::string& name) {
  SearchOptions options;
  options.strategy = "unified";
  const auto outcome = search(cost_model, Knobs{}, options);
  const bool found = outcome.ok() && !outcome->result.plans.empty();
  std::printf("* %s on one GPU, of which 28,000 MiB may be used: `unified` finds %s\n", name.c_str(),
              found
                  ? (std::to_string(outcome->result.plans.front().prediction.iteration_ms / 1000) + " s a step").c_str()
                  : "no plan that fits");
}

}  // namespace

int main() {
  const auto folder = peer::folder();
  if (!folder) return 0;
  auto published = read_published("aceso", {*folder});
  if (!published.ok()) {
    std::fprintf(stderr, "%s\n", published.error().message.c_str());
    return 1;
  }
  const std::map<std::string, Measured> measured = measurements(*folder);
  std::printf(
      "| setting | measured, s | native | error | Aceso's error | measured, MiB | native | error | Aceso's error | "
      "native's "
      "states, activations, largest run, reserved; MiB | fits "
      "|\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  Errors errors[4];
  std::vector<std::string> others;
  std::vector<std::pair<std::string, std::unique_ptr<CostModel>>> single;
  for (const peer::PeerResult& result : peer::results(*folder)) {
    const std::string name = result.setting.name();
    const World world = world_of(*published, name);
    auto built = make_cost_model("native", world.model, world.cluster, world.costs, {true});
    if (!built.ok()) {
      std::fprintf(stderr, "%s\n", built.error().message.c_str());
      return 1;
    }
    Cluster whole = world.cluster;
    for (Node& node : whole.nodes) node.memory_bytes = kDeviceMemory;
    const auto on_devices = make_cost_model("native", world.model, whole, world.costs, {true});
    const Prediction prediction = (*on_devices)->evaluate(result.plan);
    const auto real = measured.find(name);
    if (real != measured.end()) {
      print_row(name, real->second, prediction, errors);
    } else {
      others.push_back(unmeasured_row(name, prediction, result));
    }
    if (result.setting.devices() == 1) single.emplace_back(name, std::move(*built));
  }
  std::printf("\n");
  errors[0].print("time, native");
  errors[1].print("time, Aceso's own prediction");
  errors[2].print("memory, native");
  errors[3].print("memory, Aceso's own prediction, what it calls extra included");
  for (const auto& [name, cost_model] : single) print_single_gpu(*cost_model, name);
  print_unmeasured(others);
  return 0;
}
