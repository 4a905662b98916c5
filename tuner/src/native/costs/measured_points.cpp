#include "native/costs/measured_points.hpp"

#include <tuple>

#include "native/costs/operator_traits.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kMsPerNs = 1e-6;

using Points = std::map<std::int64_t, Value>;
using PointsKey = std::tuple<std::string, std::int32_t, std::string>;
static_assert(static_cast<std::size_t>(CostKind::kOperatorBackwardReserveBytes) + 1 == kOperatorParts);

}  // namespace

std::map<std::string, MeasuredOperator> measured_operators(const Model& model, const std::vector<ChosenCost>& costs) {
  std::map<std::string, MeasuredOperator> operators;
  for (const Operator& op : model.operators) operators.try_emplace(op.cost_key);
  std::map<PointsKey, std::array<Points, kOperatorParts>> points;
  for (const ChosenCost& cost : costs) {
    const CostKey& key = cost.key;
    const auto found = operators.find(key.subject);
    const bool fits = key.dtype.empty() || key.dtype == model.dtype;
    if (found == operators.end() || !fits || cost.statistics.empty()) continue;
    if (key.kind == CostKind::kOptimizerStep) {
      const bool on_host = key.placement == "host";
      (on_host ? found->second.host_optimizer : found->second.optimizer).merge(cost.statistics);
    }
    if (key.kind > CostKind::kOperatorBackwardReserveBytes) continue;
    const std::string sharding = key.sharding.empty() ? "default" : key.sharding;
    if (sharding != "default" && sharding != "alternate" && !is_sharing_name(sharding)) continue;
    std::array<Points, kOperatorParts>& of = points[{key.subject, key.tp == 0 ? 1 : key.tp, sharding}];
    const auto part = static_cast<std::size_t>(key.kind);
    const Value value = measured(cost, part < 2 ? kMsPerNs : 1);
    // Costs in the model's own type come behind those of which no type is said, and count.
    of[part].insert_or_assign(key.samples, value);
  }
  for (const auto& [key, parts] : points) {
    const auto& [subject, tp, sharding] = key;
    MeasuredOperator& of = operators[subject];
    OperatorCurves& curves =
        is_sharing_name(sharding) ? of.sharing[{tp, sharding}] : of.at[{tp, sharding == "alternate"}];
    for (std::size_t part = 0; part < kOperatorParts; ++part) {
      curves.of_part[part] = Curve(parts[part]);
    }
  }
  return operators;
}

}  // namespace trimtab::tuner
