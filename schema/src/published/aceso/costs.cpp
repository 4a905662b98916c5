#include "published/aceso/costs.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "published/measured.hpp"

namespace trimtab::published {

namespace {

constexpr const char* kRepository = "https://github.com/microsoft/SuperScaler";
constexpr const char* kBranch = "EuroSys24AE";
constexpr const char* kCommit = "53d0036";
constexpr const char* kSource = "import:microsoft/SuperScaler@53d0036";
constexpr const char* kAuthors =
    "G. Liu, Y. Miao, Z. Lin, X. Shi, S. Maleki, F. Yang, Y. Bao, S. Wang: Aceso, EuroSys'24, "
    "doi 10.1145/3627703.3629554";

// Equal for operators of equal shape: everything that was measured, in a fixed order.
using Signature = std::set<std::tuple<std::string, std::int32_t, std::int32_t, bool, OperatorMeasurement>>;

Signature signature_of(const ProfiledOperator& op) {
  Signature signature;
  for (const OperatorRow* row : op.rows) {
    signature.emplace(row->profile.database, row->samples, row->tp, row->alternate, row->measured);
  }
  return signature;
}

void add_operator(std::vector<Cost>& costs, const std::string& cost_key, const OperatorRow& row) {
  const OperatorMeasurement& of = row.measured;
  const auto ns = [](double us) { return static_cast<std::int64_t>(std::llround(us * 1000)); };
  const std::pair<CostKind, std::int64_t> values[] = {
      {CostKind::kOperatorForward, ns(of.forward_us)},
      {CostKind::kOperatorBackward, ns(of.backward_us)},
      {CostKind::kOperatorStoredBytes, of.stored},
      {CostKind::kOperatorInputBytes, of.input},
      {CostKind::kOperatorOutputBytes, of.output},
      {CostKind::kOperatorParameterBytes, of.parameters},
      {CostKind::kOperatorForwardReserveBytes, of.forward_reserve},
      {CostKind::kOperatorBackwardReserveBytes, of.backward_reserve},
  };
  for (const auto& [kind, value] : values) {
    costs.push_back(measured(operator_key(kind, cost_key, row.dtype, row.samples, row.tp), value));
    if (row.alternate) costs.back().key.sharding = "alternate";
  }
}

// Collectives that were not measured stay missing.
void add_collective(std::vector<Cost>& costs, const CollectiveRow& row) {
  if (!row.measured) return;
  costs.push_back(measured(link_key(CostKind::kCollective, row.primitive, row.dtype, row.bytes, row.group_size, false),
                           std::llround(row.us * 1000)));
}

// From the published bandwidth, which has more digits than the published time.
void add_transfer(std::vector<Cost>& costs, const TransferRow& row) {
  const double ns = static_cast<double>(row.bytes) / (row.gib_per_s * kGib) * 1e9;
  costs.push_back(
      measured(link_key(CostKind::kPointToPoint, "send_recv", "", row.bytes, 0, row.inter_node), std::llround(ns)));
}

// A folder that somebody's own run of the profiler filled has its name alone.
Fingerprint own_fingerprint(const ProfileName& profile, const std::vector<Cost>& costs) {
  Fingerprint fingerprint;
  fingerprint.device = {{"testbed", profile.database}};
  fingerprint.environment = {
      {"profile", profile.model + "-" + profile.size}, {"profiler", "Aceso's"}, {"digest", digest(costs)}};
  return fingerprint;
}

// The two machines of the artifact; another database has its name alone.
Fingerprint fingerprint_of(const ProfileName& profile, const std::vector<Cost>& costs) {
  Fingerprint fingerprint;
  fingerprint.device = {{"testbed", profile.database}};
  if (profile.database == "eurosys") {
    fingerprint.device["gpu"] = "V100-32GB";
    fingerprint.software = {{"cuda", "11.6"}, {"pytorch", "1.12"}};
    fingerprint.fabric = {{"intra_node", "NVLink"}, {"inter_node", "100 Gb/s InfiniBand"}};
  } else if (profile.database == "miniset") {
    fingerprint.device["gpu"] = "V100";
  }
  fingerprint.environment = {{"profile", profile.model + "-" + profile.size},
                             {"published_by", kAuthors},
                             {"repository", kRepository},
                             {"branch", kBranch},
                             {"commit", kCommit},
                             {"directory", "profiler/profiled-time-" + profile.database},
                             {"licence", "MIT"},
                             {"digest", digest(costs)}};
  return fingerprint;
}

Status set_dtype(ProfileCosts& costs, const std::string& dtype) {
  if (!costs.dtype.empty() && costs.dtype != dtype) {
    return bad_input("the profile " + costs.profile.database + " " + costs.profile.model + " " + costs.profile.size +
                     ": expected one dtype, found rows of " + costs.dtype + " and of " + dtype);
  }
  costs.dtype = dtype;
  return {};
}

}  // namespace

ProfiledOperators group_operators(const AcesoTables& tables) {
  ProfiledOperators groups;
  std::map<ModelSize, std::vector<std::string>> order;  // the first of its equals names the cost key
  for (const OperatorRow& row : tables.operators) {
    const ModelSize size(row.profile.model, row.profile.size);
    const auto [op, fresh] = groups[size].try_emplace(row.op);
    if (fresh) order[size].push_back(row.op);
    op->second.rows.push_back(&row);
  }
  for (auto& [size, names] : order) {
    std::map<Signature, std::string> keys;
    for (const std::string& name : names) {
      ProfiledOperator& op = groups[size][name];
      const std::string own = size.first + "-" + size.second + "/" + name;
      op.cost_key = keys.try_emplace(signature_of(op), own).first->second;
    }
  }
  return groups;
}

Result<std::vector<ProfileCosts>> aceso_costs(const AcesoTables& tables, const ProfiledOperators& operators) {
  std::map<ProfileName, ProfileCosts> profiles;
  const auto costs_of = [&](const ProfileName& name) -> ProfileCosts& {
    return profiles.try_emplace(name, ProfileCosts{name, "", {}}).first->second;
  };
  for (const auto& [size, ops] : operators) {
    for (const auto& [name, op] : ops) {
      const bool own = op.cost_key.ends_with("/" + name);  // else its equal stores them
      for (const OperatorRow* row : op.rows) {
        ProfileCosts& profile = costs_of(row->profile);
        TRIMTAB_TRY_STATUS(set_dtype(profile, row->dtype));
        if (own) add_operator(profile.published.costs, op.cost_key, *row);
      }
    }
  }
  for (const CollectiveRow& row : tables.collectives) {
    ProfileCosts& profile = costs_of(row.profile);
    TRIMTAB_TRY_STATUS(set_dtype(profile, row.dtype));
    add_collective(profile.published.costs, row);
  }
  std::vector<ProfileCosts> result;
  for (auto& [name, profile] : profiles) {
    PublishedCosts& published = profile.published;
    for (const TransferRow& row : tables.transfers) {
      if (row.database == name.database) add_transfer(published.costs, row);
    }
    const bool own = std::ranges::count(tables.own, name.database) > 0;
    published.fingerprint = own ? own_fingerprint(name, published.costs) : fingerprint_of(name, published.costs);
    published.source = own ? "import:aceso" : kSource;
    published.origin = "import:aceso/" + hash(published.fingerprint);
    result.push_back(std::move(profile));
  }
  return result;
}

}  // namespace trimtab::published
