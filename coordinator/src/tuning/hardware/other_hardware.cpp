// Nodes of other hardware than the job's costs were measured on: those that it began on beside such ones, and those
// that came back as other hardware than they were, whose devices, or their limits, were replaced while they were away.

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/numbers.hpp"
#include "base/text_parts.hpp"
#include "tuning/hardware/hardware.hpp"

namespace trimtab::coordinator {
namespace {

// How fast a device is beside the one that took its part of the same plan's steps before it.
std::optional<double> speed_in_training(std::int32_t device, const std::vector<Probe>& expected,
                                        const std::vector<Probe>& probes) {
  for (const Probe& one : probes) {
    if (one.device != device || !in_training(one) || one.ms <= 0) continue;
    const Probe* const former = find(expected, one);
    if (former != nullptr && former->ms > 0) return former->ms / one.ms;
  }
  return std::nullopt;
}

// That of most devices, and of those that of the first node.
std::string commonest_fingerprint(const Cluster& cluster) {
  std::map<std::string, std::int64_t> devices;
  for (const Node& one : cluster.nodes) devices[one.fingerprint] += one.devices;
  return std::ranges::max_element(cluster.nodes, {}, [&](const Node& one) { return devices[one.fingerprint]; })
      ->fingerprint;
}

std::vector<std::string> nodes_of_others(const Cluster& cluster, const std::string& fingerprint) {
  std::vector<std::string> names;
  for (const Node& one : cluster.nodes) {
    if (one.fingerprint != fingerprint) names.push_back(one.name);
  }
  return names;
}

}  // namespace

void Hardware::find_other_hardware() {
  const Cluster* const cluster = view_.state.cluster.said();
  if (cluster == nullptr || cluster->nodes.empty()) return;
  known_.costs_hardware = cluster->nodes.front().fingerprint;
  known_.unprobed_nodes = nodes_of_others(*cluster, known_.costs_hardware);
  if (known_.unprobed_nodes.empty()) return;
  out_.note("phase", "costs are those of fingerprint " + known_.costs_hardware + "; of other hardware are nodes " +
                         joined(known_.unprobed_nodes) + ", which are priced by how fast they compute beside it");
}

void Hardware::take_measured_speeds(const std::map<std::string, double>& speeds) {
  for (const auto& [node, speed] : speeds) {
    if (std::erase(known_.unprobed_nodes, node) == 0) continue;
    bool is_slow = false;
    for (const std::uint32_t rank : view_.state.ranks_of(node)) {
      const auto device = static_cast<std::int32_t>(rank);
      known_.take_device_speed(device, speed);
      is_slow = known_.slow_devices.contains(device);
    }
    out_.note("phase", "node " + node + ", which is of other hardware, computes the model's operators at " +
                           format_percent(speed) + " of the others' speed" +
                           (is_slow ? "" : "; it is taken to be as fast"));
  }
}

// Those that are slower than others of the hardware that costs were measured on, not by being other hardware.
std::map<std::int32_t, double> Hardware::slowed_devices() const {
  std::map<std::int32_t, double> slowed = known_.slow_devices;
  const Cluster* const cluster = view_.state.cluster.said();
  if (cluster == nullptr) return slowed;
  for (const std::string& node : nodes_of_others(*cluster, known_.costs_hardware)) {
    for (const std::uint32_t rank : view_.state.ranks_of(node)) slowed.erase(static_cast<std::int32_t>(rank));
  }
  return slowed;
}

bool Hardware::replace(const NodeBack& back, const std::string& former, const Cluster& cluster) {
  forget_hardware_of(back.node);
  if (known_.costs_hardware.empty()) known_.costs_hardware = former;
  const auto is_of_costs = [this](const Node& one) { return one.fingerprint == known_.costs_hardware; };
  const bool of_nobody = std::ranges::none_of(cluster.nodes, is_of_costs);
  if (of_nobody) {
    known_.costs_hardware = commonest_fingerprint(cluster);
    known_.slow_devices.clear();
    known_.expected_there.clear();
    known_.unprobed_nodes = nodes_of_others(cluster, known_.costs_hardware);
    known_.unprofiled = true;
  }
  std::erase(known_.unprobed_nodes, back.node);
  if (back.fingerprint != known_.costs_hardware) known_.unprobed_nodes.push_back(back.node);
  known_.other_hardware += (known_.other_hardware.empty() ? "" : ", ") + back.node;
  return of_nobody;
}

// How fast its devices and links were. What its ranks took in training stays, to tell how fast the others there are.
void Hardware::forget_hardware_of(const std::string& node) {
  for (const Probe& one : known_.last_probes) {
    if (one.node != node || !in_training(one)) continue;
    const auto left = known_.slow_devices.find(one.device);
    known_.expected_there.push_back(one);
    if (left != known_.slow_devices.end()) known_.expected_there.back().ms *= left->second;
  }
  for (const std::uint32_t rank : view_.state.ranks_of(node)) {
    known_.slow_devices.erase(static_cast<std::int32_t>(rank));
  }
  known_.forget_probes([&](const Probe& one) { return one.node == node || one.peer == node; });
}

// Where the look that was waited for has told: costs are those of the job's other devices, so these are as much slower.
bool Hardware::price_other_hardware(const std::vector<Probe>& probes) {
  if (known_.unprobed_nodes.empty()) return false;
  const auto nodes = std::exchange(known_.unprobed_nodes, {});
  const auto expected = std::exchange(known_.expected_there, {});
  const auto before = known_.slow_devices;
  const Cluster* const cluster = view_.state.cluster.said();
  std::set<std::string> others(nodes.begin(), nodes.end());
  if (cluster != nullptr) {
    for (const std::string& one : nodes_of_others(*cluster, known_.costs_hardware)) others.insert(one);
  }
  for (const std::string& node : nodes) {
    const std::vector<std::uint32_t> ranks = view_.state.ranks_of(node);
    if (ranks.empty()) continue;  // gone meanwhile
    std::string told;
    const auto beside = speed_beside_others(node, others, probes);
    for (const std::uint32_t rank : ranks) {
      const auto device = static_cast<std::int32_t>(rank);
      const auto trained = speed_in_training(device, expected, probes);
      const auto speed = trained ? trained : beside;
      if (!speed) continue;
      told += (told.empty() ? "" : ", ") + std::string("device ") + std::to_string(device) + " at " +
              format_percent(*speed);
      known_.take_device_speed(device, *speed);
    }
    out_.note("drift", "node " + node + ", which is of other hardware, computes, beside what costs were measured on: " +
                           (told.empty() ? "no probe has told; it is taken to be as fast" : told));
  }
  return known_.slow_devices != before;
}

}  // namespace trimtab::coordinator
