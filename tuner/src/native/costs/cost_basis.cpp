#include "native/costs/cost_basis.hpp"

#include <algorithm>
#include <optional>

#include "native/costs/cost_identity.hpp"
#include "native/costs/training_correction.hpp"

namespace trimtab::tuner {
namespace {

using Bases = std::map<CostKey, std::string>;

// Costs of no said type stand for any.
CostKey of_any_type(CostKey key) {
  key.dtype.clear();
  return key;
}

// What a price looks for. One rank updates whole parameters, however the passes are split.
CostKey looked_for(const CostKey& key) {
  CostKey same = identity(canonical(key));
  if (same.kind == CostKind::kOptimizerStep) {
    same.tp = 1;
    same.sharding = "default";
  }
  return same;
}

// What a price takes where nothing has the key itself.
std::optional<CostKey> stand_in(CostKey key) {
  if (key.sharding == "alternate") {
    key.sharding = "default";  // an operator without a second choice
  } else if (key.kind == CostKind::kOperatorWorkingBytes) {
    key.kind = CostKind::kOperatorForwardReserveBytes;
  } else {
    return std::nullopt;
  }
  return key;
}

std::string basis_of(const Bases& bases, const CostKey& key) {
  for (const CostKey& same : {key, of_any_type(key)}) {
    if (const auto found = bases.find(same); found != bases.end()) return found->second;
  }
  const CostKey curve = of_any_type(curve_of(key));
  const std::int64_t size = std::max<std::int64_t>(key.samples, key.bytes);
  std::optional<std::pair<std::int64_t, std::string>> below;
  std::optional<std::pair<std::int64_t, std::string>> above;
  for (const auto& [other, text] : bases) {
    const bool fits = other.dtype.empty() || other.dtype == key.dtype;
    if (!fits || of_any_type(curve_of(other)) != curve) continue;
    // Of one size that of the said type comes last, and counts.
    const std::int64_t at = std::max<std::int64_t>(other.samples, other.bytes);
    if (at <= size && (!below || at >= below->first)) below.emplace(at, text);
    if (at >= size && (!above || at <= above->first)) above.emplace(at, text);
  }
  if (!below && !above) {
    if (const auto other = stand_in(key)) return basis_of(bases, *other);
    return key.kind == CostKind::kCollective || key.kind == CostKind::kPointToPoint ? "the cluster's links"
                                                                                    : "no measurement of its own";
  }
  const auto& nearest = below ? *below : *above;
  if (!below || !above) return "beside size " + std::to_string(nearest.first) + ": " + nearest.second;
  const std::string between =
      "between sizes " + std::to_string(below->first) + " and " + std::to_string(above->first) + ": ";
  return between + (below->second == above->second ? below->second : below->second + " | " + above->second);
}

}  // namespace

std::shared_ptr<const Bases> bases_of(const std::vector<ChosenCost>& chosen) {
  auto bases = std::make_shared<Bases>();
  for (const ChosenCost& cost : chosen) bases->insert_or_assign(looked_for(cost.key), rests_on(cost));
  return bases;
}

std::vector<std::string> basis_lines(const Bases& bases, const CostNames& names) {
  std::vector<std::string> lines;
  for (const CostKey& key : names.measured) lines.push_back(describe(key) + ": " + basis_of(bases, looked_for(key)));
  lines.insert(lines.end(), names.slowdowns.begin(), names.slowdowns.end());
  for (const std::string& name : names.estimated) lines.push_back(name + ": estimated");
  for (const std::string& name : names.missing) lines.push_back(name + ": not measured");
  return lines;
}

}  // namespace trimtab::tuner
