#include "mixed_hardware.hpp"

#include "tuning/comparison.hpp"

namespace trimtab::coordinator {
namespace {

bool is_operator_time(const Cost& cost) {
  return cost.key.kind == CostKind::kOperatorForward || cost.key.kind == CostKind::kOperatorBackward;
}

std::map<CostKey, double> operator_times(const std::vector<Cost>& costs) {
  std::map<CostKey, double> times;
  for (const Cost& cost : costs) {
    if (is_operator_time(cost) && cost.statistics.mean() > 0) times[canonical(cost.key)] = cost.statistics.mean();
  }
  return times;
}

}  // namespace

std::optional<double> measured_speed(const std::vector<Cost>& here, const std::vector<Cost>& there) {
  const std::map<CostKey, double> known = operator_times(here);
  std::vector<double> speeds;
  for (const auto& [key, time] : operator_times(there)) {
    const auto found = known.find(key);
    if (found != known.end()) speeds.push_back(found->second / time);
  }
  if (speeds.empty()) return std::nullopt;
  return median(speeds);
}

std::vector<Cost> known_of_both(std::vector<Cost> here, const std::vector<Cost>& there) {
  const std::map<CostKey, double> times = operator_times(there);
  std::erase_if(here, [&](const Cost& cost) { return is_operator_time(cost) && !times.contains(canonical(cost.key)); });
  return here;
}

}  // namespace trimtab::coordinator
