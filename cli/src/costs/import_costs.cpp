#include "costs/import_costs.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "costs/adopt_fingerprint.hpp"
#include "documents.hpp"
#include "files.hpp"
#include "json_text.hpp"
#include "schema/cost_database.hpp"
#include "schema/published.hpp"
#include "text_table.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

// One batch of each profile, and one more of what its author's rules make of it.
std::vector<CostBatch> batches_of(const Published& published) {
  std::vector<CostBatch> batches;
  for (const PublishedCosts& costs : published.costs) {
    const auto by_rule = [](const Cost& cost) { return cost.source.kind == CostSource::Kind::kEstimated; };
    std::vector<Cost> measured;
    std::vector<Cost> estimated;
    for (const Cost& cost : costs.costs) (by_rule(cost) ? estimated : measured).push_back(cost);
    batches.push_back({{costs.origin, 1}, costs.fingerprint, costs.source, std::move(measured)});
    if (estimated.empty()) continue;
    const std::string source = to_text(CostSource{CostSource::Kind::kEstimated});
    batches.push_back({{costs.origin + "/estimated", 1}, costs.fingerprint, source, std::move(estimated)});
  }
  return batches;
}

Status write_documents(const Published& published, const std::string& directory) {
  for (const PublishedModel& model : published.models) {
    TRIMTAB_TRY_STATUS(write_file(directory + "/" + model.file, to_json(model.model) + "\n"));
  }
  for (const PublishedCluster& cluster : published.clusters) {
    TRIMTAB_TRY_STATUS(write_file(directory + "/" + cluster.file, to_json(cluster.cluster) + "\n"));
  }
  return {};
}

std::string layer_value(const std::map<std::string, std::string>& layer, const std::string& name) {
  const auto found = layer.find(name);
  return found == layer.end() ? "" : found->second;
}

// A published profile names its testbed; what was measured on one's own hardware, its GPU.
std::string testbed_of(const Fingerprint& fingerprint) {
  const std::string testbed = layer_value(fingerprint.device, "testbed");
  return testbed.empty() ? layer_value(fingerprint.device, "model") : testbed;
}

std::string profile_of(const PublishedCosts& costs) {
  const std::string profile = layer_value(costs.fingerprint.environment, "profile");
  if (!profile.empty() || costs.costs.empty()) return profile;
  const CostKey& key = costs.costs.front().key;
  const std::string ranks = key.group_size > 0 ? " over " + std::to_string(key.group_size) : "";
  return key.subject + ranks + ", " + key.placement;
}

json summary_json(const Published& published, std::uint64_t fresh, const std::string& documents) {
  json list = json::array();
  for (const PublishedCosts& costs : published.costs) {
    list.push_back({{"fingerprint", hash(costs.fingerprint)},
                    {"testbed", testbed_of(costs.fingerprint)},
                    {"profile", profile_of(costs)},
                    {"source", costs.source},
                    {"costs", costs.costs.size()}});
  }
  json files = json::array();
  if (!documents.empty()) {
    for (const PublishedModel& model : published.models) files.push_back(documents + "/" + model.file);
    for (const PublishedCluster& cluster : published.clusters) files.push_back(documents + "/" + cluster.file);
  }
  return {{"profiles", list}, {"new_profiles", fresh}, {"documents", files}, {"remarks", published.remarks}};
}

std::string summary_text(const Published& published, std::uint64_t fresh, const ImportArguments& arguments) {
  TextTable table({{"fingerprint"}, {"testbed"}, {"profile"}, {"costs", true}});
  std::size_t total = 0;
  for (const PublishedCosts& costs : published.costs) {
    total += costs.costs.size();
    table.add({hash(costs.fingerprint), testbed_of(costs.fingerprint), profile_of(costs),
               std::to_string(costs.costs.size())});
  }
  std::string text = table.str() + arguments.database + ": " + std::to_string(published.costs.size()) + " profiles (" +
                     std::to_string(fresh) + " new) with " + std::to_string(total) + " costs\n";
  if (arguments.documents.empty()) return text;
  return text + arguments.documents + ": " + std::to_string(published.models.size()) + " models and " +
         std::to_string(published.clusters.size()) + " clusters\n";
}

}  // namespace

Result<int> import_published(const ImportArguments& arguments, Console& console) {
  // Everything is read and checked before anything is written.
  TRIMTAB_TRY(Published published, read_published(arguments.format, arguments.paths, arguments.supplement));
  if (!arguments.fingerprint.empty()) {
    TRIMTAB_TRY_STATUS(adopt_fingerprint(arguments.database, arguments.fingerprint, published));
  }
  if (!arguments.documents.empty()) TRIMTAB_TRY_STATUS(make_directories(arguments.documents));
  TRIMTAB_TRY(CostDatabase database, open_costs_to_write(arguments.database, console.err));
  TRIMTAB_TRY(const std::vector<bool> is_new, database.add_batches(batches_of(published)));
  const auto fresh = static_cast<std::uint64_t>(std::ranges::count(is_new, true));
  if (!arguments.documents.empty()) TRIMTAB_TRY_STATUS(write_documents(published, arguments.documents));
  if (arguments.json) {
    console.out << json_text(summary_json(published, fresh, arguments.documents), 2) << "\n";
    return 0;
  }
  console.out << summary_text(published, fresh, arguments);
  for (const std::string& remark : published.remarks) console.err << "remark: " << remark << "\n";
  return 0;
}

}  // namespace trimtab::cli
