// What one job has learnt as the prior of another.

#include <algorithm>
#include <set>

#include "native/calibration/time_fit.hpp"

#include "base/numbers.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kAging = 0.05;    // of a factor: what may have changed since an earlier job
constexpr double kOtherJob = 0.1;  // of a factor: what another job's operators and messages may differ by

// However often it ages, a factor is not less sure than where nothing is known and the change is new. What counts of a
// class is its factor together with that on all communication.
void limit(const TimeSlopes& changed, TimeCovariance& covariance) {
  Applied classes;
  TimeSlopes most{};
  TimeCovariance unknown = time_covariance({});
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) classes.set(place(k));
  add_common(classes, 1, unknown);
  add_common(classes, 1, covariance);
  for (std::size_t i = 0; i < kTimeParameters; ++i) {
    most[i] = unknown[i][i] + changed[i] + (classes[i] ? changed[kCommunication] : 0);
    if (i == kFixed || covariance[i][i] <= most[i]) continue;
    const double shrink = std::sqrt(most[i] / covariance[i][i]);
    for (std::size_t j = 0; j < kTimeParameters; ++j) {
      covariance[i][j] *= shrink;
      covariance[j][i] *= shrink;
    }
  }
  add_common(classes, -1, covariance);
}

double of_key(const std::map<std::string, double>& corrections, const std::string& key) {
  const auto found = corrections.find(key);
  return found == corrections.end() ? 1 : found->second;
}

}  // namespace

Calibration aged(Calibration calibration, double computation_shift, double communication_shift) {
  const auto square = [](double of) { return of * of; };
  const double moving = square(kAging) + square(communication_shift);
  // A class's factor is the product of two: half the change each.
  TimeSlopes changed{};
  changed[kComputing] = square(kAging) + square(computation_shift);
  changed[kCommunication] = moving / 2;
  changed[kFixed] = square(kAging * calibration.fixed_ms);
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) changed[place(k)] = moving / 2;
  changed[kOverlapping] = changed[kBubble] = square(kAging);
  if (calibration.launching.value != 1) changed[kLaunching] = square(kAging);  // else nothing was learnt
  TimeCovariance covariance = time_covariance(calibration);
  for (std::size_t i = 0; i < kTimeParameters; ++i) covariance[i][i] += changed[i];
  limit(changed, covariance);
  set_time_covariance(covariance, calibration);
  calibration.memory.log_sigma = root_of_squares(calibration.memory.log_sigma, kAging);
  for (auto& [key, factor] : calibration.operators) factor.log_sigma = root_of_squares(factor.log_sigma, kAging);
  return calibration;
}

Calibration of_another_job(const Calibration& calibration) {
  const Calibration unknown;
  // Never less sure than where nothing is known.
  const auto less_sure = [](const Factor& learnt, const Factor& nothing) {
    return Factor{learnt.value, std::min(root_of_squares(learnt.log_sigma, kOtherJob), nothing.log_sigma)};
  };
  Calibration prior;
  prior.corrections = calibration.corrections;
  for (Factor Calibration::*const factor :
       {&Calibration::computation, &Calibration::communication, &Calibration::overlap, &Calibration::bubble,
        &Calibration::launching, &Calibration::memory}) {
    prior.*factor = less_sure(calibration.*factor, unknown.*factor);
  }
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) {
    prior.classes[k] = less_sure(calibration.classes[k], unknown.classes[k]);
  }
  return prior;
}

Calibration times_of(Calibration earlier, const Calibration& learnt) {
  earlier.memory = learnt.memory;
  earlier.memory_sigma = learnt.memory_sigma;
  return earlier;
}

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
