#include "costs/import_costs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "arguments.hpp"
#include "base/text_parts.hpp"
#include "documents.hpp"
#include "files.hpp"
#include "json_text.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

constexpr std::int64_t kMostNodes = 16384;    // as a cluster document allows
constexpr std::int64_t kMostDevices = 65536;  // of a node, likewise
constexpr std::int64_t kMostLayers = 200000;
constexpr std::int64_t kMostElements = std::int64_t{1} << 24;
constexpr double kMostGib = 1048576;

Error expected(const char* option, const std::string& what, std::string_view found) {
  return bad_input(std::string(option) + ": expected " + what + ", found '" + std::string(found) + "'");
}

template <typename T>
Status read_integer(const char* option, const std::string& text, std::int64_t most, T& value) {
  if (text.empty()) return {};
  const auto read = parse_number<std::int64_t>(text);
  if (!read || *read < 1 || *read > most) {
    return expected(option, "a whole number from 1 to " + std::to_string(most), text);
  }
  value = static_cast<T>(*read);
  return {};
}

Status read_layers(std::string_view text, std::vector<std::int32_t>& layers) {
  if (text.empty()) return {};
  for (const std::string_view one : parted(text)) {
    const auto value = parse_number<std::int32_t>(one);
    if (!value || *value < 1 || *value > kMostLayers) {
      return expected("--layers", "whole numbers from 1 to 200000 with commas between", text);
    }
    layers.push_back(*value);
  }
  return {};
}

Status read_memory(std::string_view text, Bytes& memory) {
  if (text.empty()) return {};
  const auto gib = parse_number<double>(text);
  if (!gib || !(*gib > 0 && *gib <= kMostGib)) {
    return expected("--device-memory", "GiB, above 0 and at most 1048576", text);
  }
  memory = std::llround(*gib * 1073741824);
  return {};
}

using Layer = std::map<std::string, std::string>;

std::string value_of(const Layer& layer, const std::string& key) {
  const auto found = layer.find(key);
  return found == layer.end() ? "" : found->second;
}

std::string difference(const std::string& what, const std::string& measured, const std::string& target) {
  if (measured == target) return "";
  const auto said = [](const std::string& value) { return value.empty() ? "unset" : "'" + value + "'"; };
  return what + " was " + said(measured) + " there and is " + said(target) + " here";
}

std::string nccl_difference(const Layer& measured, const Layer& target) {
  std::set<std::string> names;
  for (const Layer* layer : {&measured, &target}) {
    for (const auto& [name, value] : *layer) {
      if (name.starts_with("NCCL_")) names.insert(name);
    }
  }
  for (const std::string& name : names) {
    const std::string found = difference(name, value_of(measured, name), value_of(target, name));
    if (!found.empty()) return found;
  }
  return "";
}

// Costs that another program measured on hardware whose fingerprint a database already has join its costs, so that one
// search sees both: every profile gets the fingerprint of `database` that begins with `wanted`. Refused: no such
// fingerprint, or one that says another GPU, NCCL or NCCL variable than a profile does. Reads the database only.
Status adopt_fingerprint(const std::string& database, const std::string& wanted, Published& published,
                         std::ostream& remarks) {
  TRIMTAB_TRY(const ReadCosts costs, open_costs(database, remarks));
  TRIMTAB_TRY(const std::vector<Fingerprint> known, costs->fingerprints());
  std::vector<std::string> hashes;
  for (const Fingerprint& fingerprint : known) hashes.push_back(hash(fingerprint));
  TRIMTAB_TRY(const std::string chosen, choose_fingerprint(hashes, wanted, nullptr, database));
  const Fingerprint& target = known[static_cast<std::size_t>(std::ranges::find(hashes, chosen) - hashes.begin())];
  for (PublishedCosts& profile : published.costs) {
    const std::string found = disagreement(profile.fingerprint, target, profile.tells_all);
    if (!found.empty()) {
      return bad_input("--fingerprint " + chosen + ": the costs are of other hardware: " + found +
                       ". Import them without --fingerprint");
    }
    profile.fingerprint = target;
    profile.origin += "/" + chosen;  // counted once for each fingerprint
  }
  return {};
}

constexpr const char* kEstimated = "/estimated";

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
    batches.push_back({{costs.origin + kEstimated, 1}, costs.fingerprint, source, std::move(estimated)});
  }
  return batches;
}

// Profiles of which the database had not all.
std::uint64_t count_fresh(const Published& published, const std::vector<CostBatch>& batches,
                          const std::vector<bool>& is_new) {
  std::set<std::string> fresh;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (is_new[i]) fresh.insert(batches[i].id.origin);
  }
  return static_cast<std::uint64_t>(std::ranges::count_if(published.costs, [&](const PublishedCosts& costs) {
    return fresh.contains(costs.origin) || fresh.contains(costs.origin + kEstimated);
  }));
}

// Models and clusters: names of files and their texts.
std::vector<std::pair<std::string, std::string>> documents_of(const Published& published) {
  std::vector<std::pair<std::string, std::string>> documents;
  for (const PublishedModel& model : published.models) documents.emplace_back(model.file, to_json(model.model) + "\n");
  for (const PublishedCluster& one : published.clusters) documents.emplace_back(one.file, to_json(one.cluster) + "\n");
  return documents;
}

// A published profile names its testbed; what was measured on one's own hardware, its GPU.
std::string testbed_of(const Fingerprint& fingerprint) {
  const std::string testbed = value_of(fingerprint.device, "testbed");
  const std::string model = testbed.empty() ? value_of(fingerprint.device, "model") : testbed;
  return model.empty() ? "unknown " + value_of(fingerprint.device, "kind") : model;
}

std::string profile_of(const PublishedCosts& costs) {
  if (!costs.what.empty()) return costs.what;
  const std::string profile = value_of(costs.fingerprint.environment, "profile");
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
  for (const auto& [file, text] : documents_of(published)) {
    if (!documents.empty()) files.push_back(documents + "/" + file);
  }
  return {{"profiles", list}, {"new_profiles", fresh}, {"documents", files}, {"remarks", published.remarks}};
}

std::string summary_text(const Published& published, std::uint64_t fresh, const std::string& database,
                         const std::string& documents) {
  TextTable table({"fingerprint", "testbed", "profile", ">costs"});
  std::size_t total = 0;
  for (const PublishedCosts& costs : published.costs) {
    total += costs.costs.size();
    table.add({hash(costs.fingerprint), testbed_of(costs.fingerprint), profile_of(costs),
               std::to_string(costs.costs.size())});
  }
  std::string text = table.str() + database + ": " + std::to_string(published.costs.size()) +
                     (published.costs.size() == 1 ? " profile (" : " profiles (") + std::to_string(fresh) +
                     " new) with " + std::to_string(total) + " costs\n";
  if (documents.empty()) return text;
  return text + documents + ": " + std::to_string(published.models.size()) + " models and " +
         std::to_string(published.clusters.size()) + " clusters\n";
}

}  // namespace

// What both say.
static std::string contradiction(const Fingerprint& measured, const Fingerprint& target) {
  const auto told = [](const std::string& what, const std::string& there, const std::string& here) {
    return there.empty() || here.empty() ? "" : difference(what, there, here);
  };
  const std::string kind = told("the device", value_of(measured.device, "kind"), value_of(target.device, "kind"));
  if (!kind.empty()) return kind;
  const std::string gpu = told("the GPU", value_of(measured.device, "model"), value_of(target.device, "model"));
  if (!gpu.empty()) return gpu;
  return told("NCCL", value_of(measured.software, "nccl"), value_of(target.software, "nccl"));
}

std::string disagreement(const Fingerprint& measured, const Fingerprint& target, bool tells_all) {
  if (!tells_all) return contradiction(measured, target);
  const std::string gpu = difference("the GPU", value_of(measured.device, "model"), value_of(target.device, "model"));
  if (!gpu.empty()) return gpu;
  const std::string nccl = value_of(target.software, "nccl");
  if (!nccl.empty() && nccl != value_of(measured.software, "nccl")) {
    return difference("NCCL", value_of(measured.software, "nccl"), nccl);
  }
  return nccl_difference(measured.environment, target.environment);
}

Result<ProfileSupplement> parse_supplement(const SupplementTexts& texts) {
  ProfileSupplement supplement;
  TRIMTAB_TRY_STATUS(read_layers(texts.layers, supplement.layers));
  TRIMTAB_TRY_STATUS(read_integer("--hidden-size", texts.hidden, kMostElements, supplement.hidden));
  TRIMTAB_TRY_STATUS(read_integer("--sequence-length", texts.sequence, kMostElements, supplement.sequence));
  TRIMTAB_TRY_STATUS(read_integer("--global-batch", texts.global_batch, std::numeric_limits<std::int32_t>::max(),
                                  supplement.global_batch));
  TRIMTAB_TRY_STATUS(read_integer("--nodes", texts.nodes, kMostNodes, supplement.nodes));
  TRIMTAB_TRY_STATUS(
      read_integer("--devices-per-node", texts.devices_per_node, kMostDevices, supplement.devices_per_node));
  TRIMTAB_TRY_STATUS(read_memory(texts.device_memory, supplement.device_memory));
  return supplement;
}

Result<int> import_published(const ImportArguments& arguments, bool as_json, Console& console) {
  std::vector<std::string> paths = arguments.paths;
  if (paths.size() < 2) {
    return bad_input("db import: needs what to read and, last, the cost database; found only '" + paths.front() + "'");
  }
  const std::string name = paths.back();
  paths.pop_back();
  TRIMTAB_TRY(const ProfileSupplement supplement, parse_supplement(arguments.supplement));
  // Everything is read and checked before anything is written.
  TRIMTAB_TRY(Published published, read_published(arguments.format, paths, supplement));
  if (!arguments.fingerprint.empty()) {
    TRIMTAB_TRY_STATUS(adopt_fingerprint(name, arguments.fingerprint, published, console.err));
  }
  if (!arguments.documents.empty()) TRIMTAB_TRY_STATUS(make_directories(arguments.documents));
  TRIMTAB_TRY(CostDatabase database, open_costs_to_write(name, console.err));
  const std::vector<CostBatch> batches = batches_of(published);
  TRIMTAB_TRY(const std::vector<bool> is_new, database.add_batches(batches));
  const std::uint64_t fresh = count_fresh(published, batches, is_new);
  for (const auto& [file, text] : documents_of(published)) {
    if (!arguments.documents.empty()) TRIMTAB_TRY_STATUS(replace_file(arguments.documents + "/" + file, text));
  }
  if (as_json) {
    console.out << json_text(summary_json(published, fresh, arguments.documents), 2) << "\n";
    return 0;
  }
  console.out << summary_text(published, fresh, name, arguments.documents);
  for (const std::string& remark : published.remarks) console.err << "remark: " << remark << "\n";
  return 0;
}

}  // namespace trimtab::cli
