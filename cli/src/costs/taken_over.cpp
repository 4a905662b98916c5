#include "costs/taken_over.hpp"

#include <algorithm>

#include "tuner/near_costs.hpp"

namespace trimtab::cli {
namespace {

template <typename Enum>
std::optional<Enum> named(const std::string& name, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (to_string(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

// Of a class that a later release may know, nothing is taken over.
std::vector<tuner::NearFinding> findings_of(const api::TakenOver& taken) {
  std::vector<tuner::NearFinding> findings;
  for (const api::NearFinding& one : taken.findings) {
    const auto of = named<tuner::NearClass>(one.of, tuner::kNearClasses);
    const auto verdict = named<tuner::NearVerdict>(one.verdict, tuner::kNearVerdicts);
    if (!of || !verdict || one.factor <= 0) continue;
    findings.push_back({*of, *verdict, one.factor, one.doubt, static_cast<std::int32_t>(one.probes)});
  }
  return findings;
}

}  // namespace

std::optional<api::TakenOver> taken_over_there(const CostDatabase& database, const std::string& fingerprint) {
  const auto fact = database.fact(fingerprint, kTakenOverFact);
  if (!fact.ok() || !fact->has_value()) return std::nullopt;
  auto taken = api::parse<api::TakenOver>(**fact);
  if (!taken.ok() || taken->from.empty()) return std::nullopt;
  return std::move(taken).value();
}

Result<std::vector<Cost>> read_taken_over(const CostDatabase& database, const std::string& fingerprint) {
  const auto taken = taken_over_there(database, fingerprint);
  if (!taken) return std::vector<Cost>{};
  TRIMTAB_TRY(std::vector<Cost> there, database.costs(taken->from));
  return tuner::take_over({taken->from, 0, std::move(there)}, findings_of(*taken));
}

}  // namespace trimtab::cli
