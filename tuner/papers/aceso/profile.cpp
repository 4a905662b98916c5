#include "papers/aceso/profile.hpp"

#include <algorithm>
#include <cmath>

#include "native/costs/link_costs.hpp"

namespace trimtab::tuner::aceso {
namespace {

// To an even integer where it is half-way.
std::int64_t round_half_even(double value) {
  return static_cast<std::int64_t>(std::nearbyint(value));
}

struct RowField {
  CostKind kind;
  double Row::*value;
};
constexpr RowField kRowFields[] = {{CostKind::kOperatorForward, &Row::forward},
                                   {CostKind::kOperatorBackward, &Row::backward},
                                   {CostKind::kOperatorStoredBytes, &Row::activation},
                                   {CostKind::kOperatorInputBytes, &Row::input},
                                   {CostKind::kOperatorOutputBytes, &Row::output},
                                   {CostKind::kOperatorParameterBytes, &Row::weight},
                                   {CostKind::kOperatorForwardReserveBytes, &Row::forward_reserve},
                                   {CostKind::kOperatorBackwardReserveBytes, &Row::backward_reserve}};

bool is_time(CostKind kind) {
  return kind == CostKind::kOperatorForward || kind == CostKind::kOperatorBackward;
}

Primitive primitive_of(const std::string& subject) {
  if (subject == "all_gather") return Primitive::kAllGather;
  if (subject == "all_to_all") return Primitive::kAllToAll;
  return Primitive::kNone;
}

// GiB/s with the two decimals that were published.
double bandwidth(const Cost& cost) {
  const double gib = static_cast<double>(cost.key.bytes) / (kMiB * 1024);
  return std::round(gib / (cost.statistics.mean() * 1e-9) * 100) / 100;
}

LinkTable link_table(std::map<std::int64_t, double>& by_size) {
  std::vector<double> values;
  for (const auto& [bytes, gib_per_s] : by_size) values.push_back(gib_per_s);
  return LinkTable(std::move(values));
}

}  // namespace

// Half-way cases go to the even digit, as the publisher's printing has them (0.0625 is 0.062).
double published_mib(double bytes) {
  return std::nearbyint(bytes / kMiB * 1000) / 1000;
}

double LinkTable::time(double mib) const {
  if (mib <= 0 || gib_per_s_.empty()) return 0;
  const auto count = static_cast<std::int32_t>(gib_per_s_.size());
  auto entry = static_cast<std::int32_t>(std::log2(mib));
  if (entry >= 1) --entry;
  if (entry < 0) entry += count;
  return mib / (0.001 * gib_per_s_[std::clamp(entry, 0, count - 1)]);
}

double Profile::collective(Primitive primitive, std::int32_t group, double mib) const {
  if (primitive == Primitive::kNone) return 0;
  for (const double size : {mib, mib - 1}) {
    const auto found = collectives.find({primitive, group, round_half_even(size)});
    if (found != collectives.end()) return found->second;
  }
  return kForbiddenMs * 1000;
}

Profile profile_from_costs(std::span<const Cost> costs, const std::string& dtype) {
  Profile profile;
  std::map<std::int64_t, double> links[2];
  for (const Cost& cost : costs) {
    const CostKey& key = cost.key;
    if (key.particular()) continue;
    const double mean = cost.statistics.mean();
    if (key.kind == CostKind::kPointToPoint) {
      if (is_host_copy(key.subject)) continue;
      links[key.placement == "inter_node" ? 1 : 0][key.bytes] = bandwidth(cost);
      continue;
    }
    if (!key.dtype.empty() && key.dtype != dtype) continue;
    if (key.kind == CostKind::kCollective && key.placement != "inter_node") {
      const Primitive primitive = primitive_of(key.subject);
      if (primitive == Primitive::kNone) continue;
      profile.collectives[{primitive, key.group_size, round_half_even(static_cast<double>(key.bytes) / kMiB)}] =
          mean / 1000;
      continue;
    }
    const auto* const field = std::find_if(std::begin(kRowFields), std::end(kRowFields),
                                           [&](const RowField& one) { return one.kind == key.kind; });
    if (field == std::end(kRowFields)) continue;
    Row& row = profile.rows[key.subject][{key.samples, key.tp, key.sharding == "alternate"}];
    row.*field->value = is_time(key.kind) ? mean / 1000 : published_mib(mean);
    row.measured = row.measured || key.kind == CostKind::kOperatorForward;
  }
  profile.intra_node = link_table(links[0]);
  profile.inter_node = link_table(links[1]);
  return profile;
}

}  // namespace trimtab::tuner::aceso
