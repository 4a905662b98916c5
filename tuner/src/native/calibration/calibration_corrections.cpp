#include <algorithm>
#include <set>

#include "tuner/calibration.hpp"
#include "tuner/cost_table.hpp"

namespace trimtab::tuner {
namespace {

double of_key(const std::map<std::string, double>& corrections, const std::string& key) {
  const auto found = corrections.find(key);
  return found == corrections.end() ? 1 : found->second;
}

}  // namespace

Calibration beside_corrections_of(const CostTable& table, Calibration calibration) {
  const std::map<std::string, double>& now = table.training_corrections();
  std::set<std::string> keys;
  for (const auto& [key, factor] : now) keys.insert(key);
  for (const auto& [key, factor] : calibration.corrections) keys.insert(key);
  for (const std::string& key : keys) {
    const double change = of_key(calibration.corrections, key) / of_key(now, key);
    if (change == 1) continue;
    const auto [own, fresh] = calibration.operators.try_emplace(key, Factor{1, calibration.computation.log_sigma});
    const double learnt = calibration.computation.value * own->second.value;
    const double rest = std::clamp(learnt * change, std::min(1.0, learnt), std::max(1.0, learnt));
    own->second.value = rest / calibration.computation.value;
    if (fresh && own->second.value == 1) calibration.operators.erase(own);
  }
  calibration.corrections = now;
  return calibration;
}

}  // namespace trimtab::tuner
