// Nodes of other hardware than the job's costs were measured on: those that it began on beside such ones, and those
// that came back as other hardware than they were, whose devices, or their limits, were replaced while they were away.

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/numbers.hpp"
#include "schema/device_memory.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

std::string change_of(const NodeBack& back, const std::string& former) {
  return "node " + back.node + " came back as other hardware: fingerprint " + back.fingerprint + " instead of " +
         former;
}

// How fast a device is beside the one that took its part of the same plan's steps before it.
std::optional<double> speed_in_training(std::int32_t device, const std::vector<Probe>& expected,
                                        const std::vector<Probe>& probes) {
  for (const Probe& one : probes) {
    if (one.device != device || !in_training(one) || one.ms <= 0) continue;
    const auto former = std::ranges::find_if(expected, [&](const Probe& of) { return same_subject(of, one); });
    if (former != expected.end() && former->ms > 0) return former->ms / one.ms;
  }
  return std::nullopt;
}

bool has_fingerprint(const Cluster& cluster, const std::string& fingerprint) {
  return std::ranges::any_of(cluster.nodes, [&](const Node& one) { return one.fingerprint == fingerprint; });
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

void Tuning::compare_hardware(const NodeBack& back) {
  if (back.fingerprint.empty() || state_.cluster_json.empty()) return;
  auto known = parse_cluster(state_.cluster_json, "the job's cluster");
  TRIMTAB_ASSERT(known.ok(), "the job's cluster was parsed when its nodes were chosen");
  Cluster cluster = std::move(known).value();
  const auto node = std::ranges::find(cluster.nodes, back.node, &Node::name);
  if (node == cluster.nodes.end() || node->fingerprint == back.fingerprint) return;
  const std::string former = std::exchange(node->fingerprint, back.fingerprint);
  if (back.memory_bytes > 0) node->memory_bytes = device_memory(state_.job, back.memory_bytes);
  state_.cluster_json = to_json(cluster);
  transition();
  const std::string change = change_of(back, former);
  note("drift", change + ". Costs that were measured on it, and what was learnt of it, are of the former");
  decided("measure the job anew", change);
  if (!has_ranks() && !profiles_anew()) {
    state_.failure = change + " while the job was prepared. Hand the job in again";
    return end_preparation(AfterKill::kFail);
  }
  forget_hardware_of(back.node);
  if (state_.costs_hardware.empty()) state_.costs_hardware = former;
  if (!has_fingerprint(cluster, state_.costs_hardware)) take_other_costs(cluster);
  std::erase(state_.unprobed_nodes, back.node);
  if (back.fingerprint != state_.costs_hardware) state_.unprobed_nodes.push_back(back.node);
  state_.other_hardware += (state_.other_hardware.empty() ? "" : ", ") + back.node;
  const auto wanted = static_cast<std::int32_t>(ranks_of(back.node).size());
  const bool suffice = back.devices <= 0 || back.devices >= wanted;
  if (profiles_anew()) return leave_profiling_anew();
  if (wants_no_ranks() || state_.phase == Phase::kStopping || state_.phase == Phase::kUntuned) return;
  if (suffice && (!profiles_first() || held() || state_.job.mode != JobMode::kAuto)) return;
  if (suffice) return kill_ranks(AfterKill::kRelaunch);
  state_.failure =
      change + ", with " + std::to_string(back.devices) + " devices where the job needs " + std::to_string(wanted);
  kill_ranks(AfterKill::kHalt);
}

// Nobody has the devices any more that costs were measured on: neither is anything learnt from here on a fact of
// theirs, nor any device as slow as it was beside them.
void Tuning::take_other_costs(const Cluster& cluster) {
  state_.costs_hardware = state_.fingerprint = commonest_fingerprint(cluster);
  state_.calibration_json.clear();
  state_.earlier_calibration_json.clear();
  state_.slow_devices.clear();
  state_.expected_there.clear();
  state_.unprobed_nodes = nodes_of_others(cluster, state_.costs_hardware);
  state_.unprofiled = true;
}

// A job that begins on nodes of several fingerprints.
void Tuning::find_other_hardware() {
  const auto cluster = parse_cluster(state_.cluster_json, "the job's cluster");
  if (!cluster.ok() || cluster->nodes.empty()) return;
  state_.costs_hardware = cluster->nodes.front().fingerprint;
  state_.unprobed_nodes = nodes_of_others(*cluster, state_.costs_hardware);
  std::string others;
  for (const std::string& one : state_.unprobed_nodes) others += (others.empty() ? "" : ", ") + one;
  if (others.empty()) return;
  note("phase", "costs are those of fingerprint " + state_.costs_hardware + "; of other hardware are nodes " + others +
                    ", which are priced by how fast they compute beside it");
}

// By what was measured of both; the look before the first trial tells of the nodes that are left.
void Tuning::take_measured_speeds(const std::map<std::string, double>& speeds) {
  for (const auto& [node, speed] : speeds) {
    if (std::erase(state_.unprobed_nodes, node) == 0) continue;
    bool is_slow = false;
    for (const std::uint32_t rank : ranks_of(node)) {
      take_device_speed(static_cast<std::int32_t>(rank), speed);
      is_slow = state_.slow_devices.contains(static_cast<std::int32_t>(rank));
    }
    note("phase", "node " + node + ", which is of other hardware, computes the model's operators at " +
                      format_percent(speed) + " of the others' speed" + (is_slow ? "" : "; it is taken to be as fast"));
  }
}

// Those that are slower than others of the hardware that costs were measured on, not by being other hardware.
std::map<std::int32_t, double> Tuning::slowed_devices() const {
  std::map<std::int32_t, double> slowed = state_.slow_devices;
  const auto cluster = parse_cluster(state_.cluster_json, "the job's cluster");
  if (!cluster.ok()) return slowed;
  for (const std::string& node : nodes_of_others(*cluster, state_.costs_hardware)) {
    for (const std::uint32_t rank : ranks_of(node)) slowed.erase(static_cast<std::int32_t>(rank));
  }
  return slowed;
}

// How fast its devices and links were. What its ranks took in training stays, to tell how fast the others there are.
void Tuning::forget_hardware_of(const std::string& node) {
  for (const Probe& one : state_.last_probes) {
    if (one.node != node || !in_training(one)) continue;
    const auto left = state_.slow_devices.find(one.device);
    state_.expected_there.push_back(one);
    if (left != state_.slow_devices.end()) state_.expected_there.back().ms *= left->second;
  }
  for (const std::uint32_t rank : ranks_of(node)) state_.slow_devices.erase(static_cast<std::int32_t>(rank));
  for (std::vector<Probe>* probes : {&state_.first_probes, &state_.last_probes}) {
    std::erase_if(*probes, [&](const Probe& one) { return one.node == node || one.peer == node; });
  }
  state_.probed_plan_hash.clear();
}

// Where the look that was waited for has told: costs are those of the job's other devices, so these are as much slower.
bool Tuning::price_other_hardware(const std::vector<Probe>& probes) {
  if (state_.unprobed_nodes.empty()) return false;
  const auto nodes = std::exchange(state_.unprobed_nodes, {});
  const auto expected = std::exchange(state_.expected_there, {});
  const auto before = state_.slow_devices;
  const auto cluster = parse_cluster(state_.cluster_json, "the job's cluster");
  std::set<std::string> others(nodes.begin(), nodes.end());
  if (cluster.ok()) {
    for (const std::string& one : nodes_of_others(*cluster, state_.costs_hardware)) others.insert(one);
  }
  for (const std::string& node : nodes) {
    if (ranks_of(node).empty()) continue;  // gone meanwhile
    std::string told;
    const auto beside = speed_beside_others(node, others, probes);
    for (const std::uint32_t rank : ranks_of(node)) {
      const auto device = static_cast<std::int32_t>(rank);
      const auto trained = speed_in_training(device, expected, probes);
      const auto speed = trained ? trained : beside;
      if (!speed) continue;
      told += (told.empty() ? "" : ", ") + std::string("device ") + std::to_string(device) + " at " +
              format_percent(*speed);
      take_device_speed(device, *speed);
    }
    note("drift", "node " + node + ", which is of other hardware, computes, beside what costs were measured on: " +
                      (told.empty() ? "no probe has told; it is taken to be as fast" : told));
  }
  return state_.slow_devices != before;
}

// Before the next launch. Ranks that live are ended for it in mode auto alone.
bool Tuning::profiles_first() const {
  return state_.unprofiled && state_.tune && lost_.empty() && state_.job.mode != JobMode::kObserve &&
         steers_ranks(state_.phase) && enough_steps_for_trial();
}

void Tuning::profile_anew() {
  state_.unprofiled = false;
  state_.costs_wanted = state_.costs_reused = 0;
  // As a launch has one, of whatever runs on the job's devices.
  state_.launch = std::max(state_.launch, launch_seen_) + 1;
  if (state_.has_trial()) fail_trial("withdrawn", "every node is other hardware than it was", false);
  note("drift",
       "no node is of the hardware that the job's costs were measured on: they are measured on what there is " +
           std::string("now, then the job goes on from its last snapshot"));
  profile();
}

bool Tuning::profiles_anew() const {
  return state_.phase == Phase::kProfiling && !state_.incumbent.empty();
}

void Tuning::profiled_anew() {
  if (state_.other_hardware.empty()) {
    for (const NodeShare& share : state_.nodes) {
      state_.other_hardware += (state_.other_hardware.empty() ? "" : ", ") + share.node;
    }
  }
  enter(Phase::kMeasuring);
  launch_ranks(state_.incumbent, "", state_.step == 0, 0);
}

// What benchmarks there run are ended; then the ranks are launched, or profiled once more, as it is due.
void Tuning::leave_profiling_anew() {
  std::erase_if(state_.outstanding, [](const OutstandingCommand& one) { return one.kind == CommandKind::kBenchmark; });
  enter(Phase::kMeasuring);
  kills_benchmarks_ = true;
  kill_ranks(AfterKill::kRelaunch);
  kills_benchmarks_ = false;
}

// The ranks run the incumbent on what there is now: as on nodes that have joined, it is the plan to begin from.
void Tuning::measure_anew() {
  const std::string nodes = std::exchange(state_.other_hardware, "");
  if (state_.has_trial()) fail_trial("withdrawn", "node " + nodes + " is other hardware than it was", false);
  note("drift", "the running plan is measured anew, with node " + nodes + " as it is now");
  state_.initial = state_.incumbent;
  state_.initial_predicted = state_.incumbent_predicted;
  state_.spare = {};
  state_.replaced.clear();
  no_spare_.clear();
  forget_measurements();
  enter(Phase::kMeasuring);
  settled();
}

}  // namespace trimtab::coordinator
