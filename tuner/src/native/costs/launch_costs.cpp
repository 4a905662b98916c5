#include "native/costs/launch_costs.hpp"

#include <algorithm>

#include "native/costs/cost_identity.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::array<std::string_view, 3> kWays{"", "compiled", "graph"};  // the first that was measured counts

// Those of one way to launch, as plain costs of their passes: which source counts is decided as for those.
std::vector<Cost> launched(const std::vector<Cost>& costs, std::string_view way) {
  std::vector<Cost> found;
  for (const Cost& cost : costs) {
    if (!cost.key.is_launch() || cost.key.protocol != way || cost.key.placement == "host") continue;
    found.push_back(cost);
    found.back().key = cost.key.launched();
  }
  return found;
}

// The most ranks that were measured, of those up to `tp`; the first sharding choice stands for the second.
const OperatorCurves* curves_of(const MeasuredOperator& of, std::int32_t tp, bool alternate) {
  const OperatorCurves* found = nullptr;
  for (const auto& [at, curves] : of.at) {
    if (at.first > tp || (at.second && !(alternate && at.first == tp))) continue;
    found = &curves;
  }
  return found;
}

Value within(const Curve& curve, std::int32_t samples) {
  if (curve.empty()) return {0, 0, Quality::kMeasured};
  const Value value = curve.at(samples);
  return value.quality == Quality::kMissing ? curve.at(curve.nearest_point(samples)) : value;
}

}  // namespace

std::vector<ChosenCost> choose_launches(const std::vector<Cost>& costs) {
  std::map<CostKey, ChosenCost> chosen;
  for (const std::string_view way : kWays) {
    for (ChosenCost& one : choose_costs(launched(costs, way))) {
      one.key = one.key.launch();
      one.key.protocol = way;
      const CostKey key = identity(one.key);
      chosen.try_emplace(key, std::move(one));
    }
  }
  std::vector<ChosenCost> all;
  for (auto& [key, one] : chosen) all.push_back(std::move(one));
  return all;
}

LaunchCosts::LaunchCosts(const Model& model, const std::vector<Cost>& costs) {
  for (const std::string_view way : kWays) {
    const std::vector<Cost> of_way = launched(costs, way);
    if (of_way.empty()) continue;
    for (auto& [key, measured] : measured_operators(model, choose_costs(of_way))) {
      if (!measured.at.empty() || !measured.optimizer.empty()) operators_.try_emplace(key, std::move(measured));
    }
  }
}

Launches LaunchCosts::at(const std::string& cost_key, std::int32_t samples, std::int32_t tp, bool alternate) const {
  Launches launches;
  const auto found = operators_.find(cost_key);
  if (found == operators_.end()) return launches;
  if (!found->second.optimizer.empty()) launches.update = found->second.optimizer.ms().mean;
  const OperatorCurves* const curves = curves_of(found->second, tp, alternate);
  if (curves == nullptr) return launches;
  const Value forward = within((*curves)[OperatorPart::kForward], samples);
  const Value backward = within((*curves)[OperatorPart::kBackward], samples);
  launches.forward = forward.mean;
  launches.backward = backward.mean;
  launches.error = forward.error + backward.error;
  return launches;
}

}  // namespace trimtab::tuner
