#include <algorithm>
#include <iterator>
#include <set>

#include "published/aceso/costs.hpp"
#include "published/measured.hpp"

namespace trimtab::published {

namespace {

// For what nobody has measured: the bandwidth of the largest transfer, and what the smallest takes beyond it.
Link link_of(bool inter_node, const std::string& database, const std::vector<TransferRow>& transfers) {
  Link link;
  link.level = inter_node ? "inter_node" : "intra_node";
  std::vector<TransferRow> rows;
  std::ranges::copy_if(transfers, std::back_inserter(rows), [&](const TransferRow& row) {
    return row.database == database && row.inter_node == inter_node;
  });
  if (rows.empty()) return link;
  const auto [small, large] = std::ranges::minmax_element(rows, {}, &TransferRow::bytes);
  link.bandwidth_bytes_per_s = large->gib_per_s * kGib;
  const double seconds =
      static_cast<double>(small->bytes) * (1 / (small->gib_per_s * kGib) - 1 / link.bandwidth_bytes_per_s);
  link.latency_us = std::max(0.0, seconds * 1e6);
  return link;
}

// The profile whose costs belong to a setting: that of the first database which has it.
const ProfileCosts* profile_of(const Setting& setting, const AcesoTables& tables,
                               const std::vector<ProfileCosts>& costs) {
  const auto list = std::ranges::find_if(tables.lists, [&](const OperatorList& candidate) {
    return candidate.model == setting.model && candidate.size == setting.size;
  });
  if (list == tables.lists.end()) return nullptr;
  const auto found = std::ranges::find_if(costs, [&](const ProfileCosts& candidate) {
    return candidate.profile.model == list->profile_model && candidate.profile.size == list->profile_size;
  });
  return found == costs.end() ? nullptr : &*found;
}

Cluster cluster_of(const Setting& setting, const ProfileCosts& costs, const AcesoTables& tables) {
  const std::string fingerprint = hash(costs.published.fingerprint);
  Cluster cluster;
  cluster.nodes = equal_nodes(setting.nodes, {"", fingerprint, setting.devices_per_node, setting.memory_limit});
  cluster.links.push_back(link_of(false, costs.profile.database, tables.transfers));
  if (setting.nodes > 1) cluster.links.push_back(link_of(true, costs.profile.database, tables.transfers));
  return cluster;
}

std::string file_of(const Setting& setting, const std::vector<Setting>& all) {
  const auto same = std::ranges::count_if(
      all, [&](const Setting& other) { return other.model == setting.model && other.size == setting.size; });
  const std::string name = setting.model + "-" + setting.size;
  if (same == 1) return name + ".cluster.json";
  const std::int64_t gib = (setting.memory_limit + (1 << 29)) >> 30;
  return name + "-" + std::to_string(setting.nodes * setting.devices_per_node) + "x-" + std::to_string(gib) +
         "g.cluster.json";
}

}  // namespace

Status add_aceso_clusters(const AcesoTables& tables, const std::vector<ProfileCosts>& costs, Published& out) {
  std::set<std::string> files;
  for (const Setting& setting : tables.settings) {
    if (setting.nodes == 0) continue;
    const ProfileCosts* profile = profile_of(setting, tables, costs);
    if (profile == nullptr || profile->dtype != setting.dtype) {
      return bad_input("models.csv: " + setting.model + " " + setting.size + ": expected rows of dtype " +
                       setting.dtype + " of its profile in operators.csv, found " +
                       (profile == nullptr ? "none" : profile->dtype));
    }
    std::string file = file_of(setting, tables.settings);
    if (!files.insert(file).second) {
      return bad_input("models.csv: two settings of " + setting.model + " " + setting.size +
                       " would both be written to " + file);
    }
    out.clusters.push_back({std::move(file), cluster_of(setting, *profile, tables)});
  }
  return {};
}

}  // namespace trimtab::published
