#include "agents/mixed_hardware.hpp"

#include <map>

#include "tuner/cost_choice.hpp"
#include "tuning/trial/comparison.hpp"

namespace trimtab::coordinator {
namespace {

bool is_operator_time(const CostKey& key) {
  return key.kind == CostKind::kOperatorForward || key.kind == CostKind::kOperatorBackward;
}

std::map<CostKey, double> operator_times(const std::vector<Cost>& costs) {
  std::map<CostKey, double> times;
  for (const tuner::ChosenCost& cost : tuner::choose_costs(costs)) {
    const double mean = cost.statistics.mean();
    if (is_operator_time(cost.key) && mean > 0) times[cost.key] = mean;
  }
  return times;
}

}  // namespace

MeasuredSpeed measured_speed(const std::vector<CostKey>& needed, const std::vector<Cost>& here,
                             const std::vector<Cost>& there) {
  const std::map<CostKey, double> times_here = operator_times(here);
  const std::map<CostKey, double> times_there = operator_times(there);
  MeasuredSpeed measured;
  std::vector<double> speeds;
  for (const CostKey& key : needed) {
    const auto known = times_here.find(canonical(key));
    if (known == times_here.end()) continue;
    ++measured.known;
    const auto other = times_there.find(known->first);
    if (other != times_there.end()) speeds.push_back(known->second / other->second);
  }
  measured.operators = speeds.size();
  if (!speeds.empty()) measured.speed = median(speeds);
  return measured;
}

std::vector<Cost> known_of_both(std::vector<Cost> here, const std::vector<Cost>& there) {
  const std::map<CostKey, double> times = operator_times(there);
  std::erase_if(here,
                [&](const Cost& one) { return is_operator_time(one.key) && !times.contains(canonical(one.key)); });
  return here;
}

}  // namespace trimtab::coordinator
