#include "tuner/near_costs.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/numbers.hpp"
#include "native/costs/launch_costs.hpp"
#include "native/costs/link_costs.hpp"
#include "native/costs/near_classes.hpp"
#include "native/costs/training_correction.hpp"

namespace trimtab::tuner {
namespace {

using Kind = CostSource::Kind;

constexpr double kOfOneValue = 0.05;
constexpr double kSpreadShare = 0.25;    // of the distance's doubt: how far apart costs of a class are taken to be
constexpr double kSpreadWeight = 2;      // in probes
constexpr double kClear = 2;             // standard errors
constexpr double kTooFarApart = 0.10;    // of what a class's costs change by
constexpr double kTooFarAway = 0.5;      // of their common change: a factor of 1.65
constexpr double kOverlapChange = 0.05;  // no more than that is no change
constexpr double kMillion = 1e6;

// Probes without which nothing is said of a class.
std::int32_t least_probes(NearClass of) {
  return of == NearClass::kComputation ? 4 : 2;
}

double noise_of(const Cost& cost) {
  const Statistics& values = cost.statistics;
  if (values.mean() <= 0) return 0;
  const double error = values.count() > 1 ? 1.2533 * values.standard_error() / values.mean() : kOfOneValue;
  return root_of_squares(std::isfinite(error) ? error : kOfOneValue, cost.source.disturbed ? kOfDisturbed : 0.0);
}

// Of a probe over the near hardware's cost.
struct Ratio {
  double log = 0;
  double noise = 0;
};

std::optional<Ratio> ratio_of(const Cost& here, const Cost& there) {
  const double now = here.statistics.median();
  const double before = there.statistics.median();
  if (now <= 0 && before <= 0) return Ratio{0, kSystematic};  // memory that neither takes
  if (now <= 0 || before <= 0) return std::nullopt;
  return Ratio{std::log(now / before), std::hypot(noise_of(here), noise_of(there), kSystematic)};
}

// What all ratios have in common, and how far true ones lie apart.
struct Common {
  double log = 0;
  double error = 0;
  double apart = 0;
};

Common common_of(const std::vector<Ratio>& ratios, double usual_spread) {
  Common common;
  double weights = 0;
  for (const Ratio& one : ratios) {
    const double weight = 1 / (one.noise * one.noise + usual_spread * usual_spread);
    weights += weight;
    common.log += weight * one.log;
  }
  common.log /= weights;
  double excess = 0;
  for (const Ratio& one : ratios) {
    excess += (one.log - common.log) * (one.log - common.log) - one.noise * one.noise;
  }
  const double before = kSpreadWeight * usual_spread * usual_spread;
  const double freedom = kSpreadWeight + static_cast<double>(ratios.size()) - 1;
  common.apart = std::sqrt((before + std::max(excess, 0.0)) / freedom);
  common.error = std::sqrt(1 / weights);
  return common;
}

NearFinding judged(NearClass of, const std::vector<Ratio>& ratios, double distance_doubt) {
  NearFinding finding{of, NearVerdict::kUnprobed, 1, distance_doubt, static_cast<std::int32_t>(ratios.size())};
  if (finding.probes < least_probes(of)) return finding;
  const Common common = common_of(ratios, kSpreadShare * distance_doubt);
  double unchanged = kClear * common.error;
  if (of == NearClass::kOverlap) unchanged = std::max(unchanged, kOverlapChange);
  const bool is_changed = std::abs(common.log) > unchanged;
  const bool apart = common.apart > kTooFarApart || std::abs(common.log) > kTooFarAway;
  if (apart || (is_changed && of == NearClass::kOverlap)) {
    finding.verdict = NearVerdict::kRefuted;
    finding.doubt = std::max({distance_doubt, common.apart, std::abs(common.log)});
    return finding;
  }
  finding.verdict = is_changed ? NearVerdict::kScaled : NearVerdict::kConfirmed;
  finding.factor = is_changed ? std::exp(common.log) : 1;
  finding.doubt = std::hypot(common.apart, common.error, is_changed ? 0.0 : common.log);
  return finding;
}

std::int32_t millionths(double value) {
  constexpr double kMost = 1e9;
  return static_cast<std::int32_t>(std::lround(std::clamp(value * kMillion, 0.0, kMost)));
}

constexpr std::array<std::string_view, kNearClasses> kClassNames{
    "computation", "memory", "links inside nodes", "links between nodes", "overlap", "host", "launches"};
constexpr std::array<std::string_view, kNearVerdicts> kVerdictNames{"unprobed", "confirmed", "scaled", "refuted"};

}  // namespace

std::optional<NearClass> near_class_of(const CostKey& key) {
  if (key.is_launch()) return NearClass::kLaunches;
  switch (key.kind) {
    case CostKind::kOperatorForward:
    case CostKind::kOperatorBackward:
      return NearClass::kComputation;
    case CostKind::kOptimizerStep:
      return key.placement == "host" ? NearClass::kHost : NearClass::kComputation;
    case CostKind::kOperatorStoredBytes:
    case CostKind::kOperatorWorkingBytes:
      return NearClass::kMemory;
    case CostKind::kCollective:
    case CostKind::kPointToPoint:
      if (is_host_copy(key.subject)) return NearClass::kHost;
      return key.placement == "inter_node" ? NearClass::kInterNode : NearClass::kIntraNode;
    case CostKind::kOverlapComputation:
    case CostKind::kOverlapCommunication:
      return NearClass::kOverlap;
    default:
      return std::nullopt;
  }
}

CostByKey benchmarked(const std::vector<Cost>& costs) {
  CostByKey found;
  for (Cost& cost : one_cost_each(costs)) {
    if (cost.source.kind != CostSource::Kind::kBenchmark || !near_class_of(cost.key)) continue;
    const CostKey key = identity(cost.key);
    found.insert_or_assign(key, std::move(cost));
  }
  for (ChosenCost& one : choose_launches(costs)) {
    if (one.source.kind != CostSource::Kind::kBenchmark) continue;
    found.insert_or_assign(identity(one.key), Cost{one.key, std::move(one.statistics), std::move(one.source)});
  }
  return found;
}

std::string_view to_string(NearClass of) {
  return kClassNames[static_cast<std::size_t>(of)];
}

std::string_view to_string(NearVerdict verdict) {
  return kVerdictNames[static_cast<std::size_t>(verdict)];
}

std::string describe(const NearFinding& finding) {
  const std::string of = std::string(to_string(finding.of));
  const std::string probes = std::to_string(finding.probes) + (finding.probes == 1 ? " probe" : " probes");
  const std::string sure = " (± " + format_fixed(196 * finding.doubt, 0) + " %, " + probes + ")";
  switch (finding.verdict) {
    case NearVerdict::kConfirmed:
      return of + " as it was" + sure;
    case NearVerdict::kScaled:
      return of + " " + format_fixed(finding.factor, 2) + " times what it was" + sure;
    case NearVerdict::kRefuted:
      return of + " measured anew: " + probes + " disagree with it";
    case NearVerdict::kUnprobed:
      break;
  }
  return of + " measured anew: " + probes + ", too few to tell";
}

std::vector<NearFinding> compare_with_near(const std::vector<CostKey>& needed, const std::vector<Cost>& here,
                                           const NearHardware& near) {
  const CostByKey measured = benchmarked(here);
  const CostByKey there = benchmarked(near.costs);
  std::map<NearClass, std::vector<Ratio>> ratios;
  for (const CostKey& wanted : needed) {
    const CostKey key = identity(wanted);
    const auto known = there.find(key);
    if (known == there.end()) continue;
    std::vector<Ratio>& of = ratios[*near_class_of(key)];
    const auto now = measured.find(key);
    if (now == measured.end() || now->second.source.covered != known->second.source.covered) continue;
    if (const auto ratio = ratio_of(now->second, known->second)) of.push_back(*ratio);
  }
  std::vector<NearFinding> findings;
  for (const auto& [of, all] : ratios) findings.push_back(judged(of, all, near.doubt));
  return findings;
}

std::vector<Cost> take_over(const NearHardware& near, const std::vector<NearFinding>& findings) {
  std::vector<Cost> costs;
  for (auto& [key, cost] : benchmarked(near.costs)) {
    const auto found = std::ranges::find(findings, *near_class_of(key), &NearFinding::of);
    if (found == findings.end()) continue;
    Cost taken = cost;
    taken.source.kind = Kind::kTakenOver;
    taken.source.name = near.fingerprint;
    taken.source.times_ppm = millionths(found->factor);
    taken.source.doubt_ppm = millionths(found->doubt);
    costs.push_back(std::move(taken));
  }
  return costs;
}

std::vector<Cost> take_over_confirmed(const NearHardware& near, std::vector<NearFinding> findings) {
  std::erase_if(findings, [](const NearFinding& one) { return !one.holds(); });
  return take_over(near, findings);
}

}  // namespace trimtab::tuner
