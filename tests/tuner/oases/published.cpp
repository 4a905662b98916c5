#include "published.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.hpp"

namespace trimtab::tuner::oases::test {
namespace {

using Json = nlohmann::json;

const Published& published() {
  static const Published kPublished = [] {
    auto read = read_published("oases", {TRIMTAB_OASES_DATA});
    TRIMTAB_ASSERT(read.ok(), "the published profile is beside the tests");
    return std::move(read).value();
  }();
  return kPublished;
}

std::string cluster_file(const Setting& setting) {
  const std::string size = setting.devices == 32 ? "" : "-" + std::to_string(setting.devices) + "x";
  return "oases-" + setting.name + size + ".cluster.json";
}

std::vector<std::int32_t> by_node(const Json& runs) {
  std::vector<std::int32_t> all;
  for (const Json& run : runs) all.resize(all.size() + run[1].get<std::size_t>(), run[0].get<std::int32_t>());
  return all;
}

std::string name_of(const std::string& peer_name) {
  static const std::map<std::string, std::string> kNames{
      {"BERT-large", "bert-large"}, {"BERT-1.3B", "bert-1_3B"}, {"LLaMA-7B", "llama-7B"}};
  const auto found = kNames.find(peer_name);
  return found == kNames.end() ? "" : found->second;
}

PeerAnswer read(const Json& in) {
  PeerAnswer answer;
  answer.setting = {name_of(in.at("model")), in.at("gpus")};
  answer.degrees = in.at("strategies").get<std::vector<std::int32_t>>();
  answer.feasible = in.contains("cost_ms");
  if (!answer.feasible) return answer;
  answer.plan = by_node(in.at("plan"));
  answer.deployed = by_node(in.at("deployed"));
  answer.paper_plan = by_node(in.at("paper_opt_plan"));
  answer.published_ms = in.at("cost_ms");
  answer.solve_s = in.at("solve_s");
  answer.memory = in.at("mem");
  answer.deployed_published_ms = in.at("deployed_cost");
  answer.deployed_memory = in.at("deployed_mem");
  answer.plan_paper_ms = in.at("paper_cost_of_plan");
  answer.deployed_paper_ms = in.at("paper_cost_of_deployed");
  answer.paper_ms = in.at("paper_opt");
  answer.paper_memory = in.at("paper_opt_mem");
  return answer;
}

}  // namespace

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const char* const name : {"bert-large", "bert-1_3B", "gpt-8_3B", "llama-7B"}) {
    for (const std::int32_t devices : {8, 16, 32}) all.push_back({name, devices});
  }
  return all;
}

World world(const Setting& setting) {
  World world;
  for (const PublishedModel& model : published().models) {
    if (model.file == "oases-" + setting.name + ".json") world.model = model.model;
  }
  for (const PublishedCluster& cluster : published().clusters) {
    if (cluster.file == cluster_file(setting)) world.cluster = cluster.cluster;
  }
  TRIMTAB_ASSERT(!world.cluster.nodes.empty(), "a setting of the profile");
  for (const PublishedCosts& costs : published().costs) {
    if (hash(costs.fingerprint) == world.cluster.nodes.front().fingerprint) world.costs = costs.costs;
  }
  return world;
}

std::optional<OasesCostModel> cost_model(const Setting& setting, OasesVariant variant) {
  const World of = world(setting);
  auto built = OasesCostModel::build(variant, of.model, of.cluster, of.costs);
  if (!built.ok()) return std::nullopt;
  return std::move(built).value();
}

std::vector<PeerAnswer> peer_answers() {
  std::ifstream in(TRIMTAB_OASES_DATA "/peer_results.json");
  std::vector<PeerAnswer> all;
  for (const Json& one : Json::parse(in)) {
    if (one.contains("strategies")) all.push_back(read(one));
  }
  return all;
}

}  // namespace trimtab::tuner::oases::test
