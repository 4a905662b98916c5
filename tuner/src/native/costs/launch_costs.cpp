#include "native/costs/launch_costs.hpp"

#include <algorithm>

#include "native/costs/cost_identity.hpp"

namespace trimtab::tuner {
namespace {

using Ways = std::array<std::string_view, 3>;
constexpr Ways kWays{"", "compiled", "graph"};  // in the order of LaunchedAs
constexpr double kUniform = 0.577;              // a uniform distribution's deviation, of its mean, from 0 on

// The first that was measured counts.
Ways ways_of(LaunchedAs own) {
  Ways ways = kWays;
  const auto at = ways.begin() + static_cast<std::ptrdiff_t>(own);
  std::rotate(ways.begin(), at, at + 1);
  return ways;
}

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
auto most_ranks(const MeasuredOperator& of, std::int32_t tp, bool alternate) {
  auto found = of.at.end();
  for (auto one = of.at.begin(); one != of.at.end(); ++one) {
    const auto [ranks, second] = one->first;
    if (ranks <= tp && (!second || (alternate && ranks == tp))) found = one;
  }
  return found;
}

Value within(const Curve& curve, std::int32_t samples) {
  if (curve.empty()) return {0, 0, Quality::kMeasured};
  const Value value = curve.at(samples);
  return value.quality == Quality::kMissing ? curve.at(curve.nearest_point(samples)) : value;
}

}  // namespace

std::string_view protocol_of(LaunchedAs way) {
  return kWays[static_cast<std::size_t>(way)];
}

std::vector<ChosenCost> choose_launches(const std::vector<Cost>& costs, LaunchedAs own) {
  std::map<CostKey, ChosenCost> chosen;
  for (const std::string_view way : ways_of(own)) {
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
  for (const std::string_view way : ways_of(model.launched_as)) {
    const std::vector<Cost> of_way = launched(costs, way);
    if (of_way.empty()) continue;
    for (auto& [key, measured] : measured_operators(model, choose_costs(of_way))) {
      if (!measured.at.empty() || !measured.optimizer.empty()) operators_.try_emplace(key, std::move(measured));
    }
  }
  estimate_message();
}

void LaunchCosts::estimate_message() {
  double shortest = 0;
  const auto take = [&shortest](double ms) {
    if (ms > 0 && (shortest == 0 || ms < shortest)) shortest = ms;
  };
  for (const auto& [key, of] : operators_) {
    if (!of.optimizer.empty()) take(of.optimizer.ms().mean);
    for (const auto& [at, curves] : of.at) {
      for (const OperatorPart part : {OperatorPart::kForward, OperatorPart::kBackward}) {
        take(within(curves[part], 1).mean);
      }
    }
  }
  message_.mean = shortest / 2;
  message_.error = kUniform * message_.mean;
}

Launches LaunchCosts::messages(int forward, int backward, int once) const {
  const double ms = message_.mean;
  return {forward * ms, backward * ms, once * ms, (forward + backward) * message_.error};
}

Launches LaunchCosts::at(const std::string& cost_key, std::int32_t samples, std::int32_t tp, bool alternate,
                         std::int32_t sums) const {
  Launches launches;
  const auto found = operators_.find(cost_key);
  if (found == operators_.end()) return launches;
  if (!found->second.optimizer.empty()) launches.update = found->second.optimizer.ms().mean;
  const auto measured = most_ranks(found->second, tp, alternate);
  if (measured == found->second.at.end()) return launches;
  const Value forward = within(measured->second[OperatorPart::kForward], samples);
  const Value backward = within(measured->second[OperatorPart::kBackward], samples);
  launches.forward = forward.mean;
  launches.backward = backward.mean;
  launches.error = forward.error + backward.error;
  if (measured->first.first == 1 && tp > 1) launches.add(messages(sums, sums, 0), 1, 0);
  return launches;
}

}  // namespace trimtab::tuner
