#include "tuning/hardware/hardware_state.hpp"

#include <algorithm>

#include "tuning/state.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kAsFast = 0.95;  // of a device's speed

}  // namespace

void HardwareState::forget_kept() {
  for (Drift& drift : drifts) drift.kept = false;
}

std::vector<MeasuredCost> HardwareState::measured_again() const {
  const auto last = std::find_if(drifts.rbegin(), drifts.rend(), [](const Drift& one) { return one.doubts; });
  return last == drifts.rend() ? std::vector<MeasuredCost>{} : last->again.costs;
}

void HardwareState::accept(const std::vector<Finding>& findings) {
  for (const Finding& one : findings) {
    for (Probe& known : last_probes) {
      if (same_subject(one.probe, known)) known = one.probe;
    }
  }
}

void HardwareState::take_device_shares(const std::vector<Finding>& findings, const ClusterText& cluster) {
  for (const auto& [device, share] : device_shares(findings, cluster)) {
    const auto known = slow_devices.find(device);
    take_device_speed(device, known == slow_devices.end() ? share : known->second * share);
  }
}

void HardwareState::take_device_speed(std::int32_t device, double share) {
  slow_devices[device] = share;
  if (share >= kAsFast) slow_devices.erase(device);
}

const Probe* find(const std::vector<Probe>& probes, const Probe& like) {
  const auto found = std::ranges::find_if(probes, [&](const Probe& one) { return same_subject(one, like); });
  return found == probes.end() ? nullptr : &*found;
}

void name_causes(const std::vector<Finding>& causes, Drift& drift) {
  const auto is_link = [](const Finding& one) { return one.is_link(); };
  drift.links = std::any_of(causes.begin(), causes.end(), is_link);
  drift.devices = !std::all_of(causes.begin(), causes.end(), is_link);
  const bool recovered = drift.by_look && !causes.empty() && causes.front().share > 1;
  drift.confidence = causes.empty() ? 0 : confidence_of(causes);
  drift.what = (recovered ? "recovered: " : "") + to_text(causes);
}

void name_causes(const std::vector<LinkFault>& faults, Drift& drift) {
  if (faults.empty()) return;
  const double confidence = confidence_of(faults);
  drift.confidence = drift.what.empty() ? confidence : std::min(drift.confidence, confidence);
  drift.what += (drift.what.empty() ? "" : "; ") + to_text(faults);
}

Drift drift_by_look(const std::vector<Finding>& findings, const TuningState& state) {
  Drift drift;
  drift.plan_hash = state.incumbent.hash;
  drift.since_step = drift.noticed_step = state.step;
  drift.before_ms = drift.after_ms = state.incumbent_measured.mean_ms;
  drift.by_look = true;
  name_causes(findings, drift);
  return drift;
}

}  // namespace trimtab::coordinator
