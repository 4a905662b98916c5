// A node has come back as other hardware: the running plan is measured anew, and costs where nobody has the hardware
// any more that they were measured on.

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "schema/cluster.hpp"
#include "schema/device_memory.hpp"
#include "tuning/trial/budget.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

std::string change_of(const NodeBack& back, const std::string& former) {
  return "node " + back.node + " came back as other hardware: fingerprint " + back.fingerprint + " instead of " +
         former;
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
  out_.changed = true;
  const std::string change = change_of(back, former);
  out_.note("drift", change + ". Costs that were measured on it, and what was learnt of it, are of the former");
  out_.decide("measure the job anew", change);
  if (!state_.has_ranks() && !state_.profiles_anew()) {
    state_.failure = change + " while the job was prepared. Hand the job in again";
    return end_preparation(AfterKill::kFail);
  }
  if (hardware_.replace(back, former, cluster)) {  // nothing learnt from here on is a fact of the former
    state_.fingerprint = state_.hardware.costs_hardware;
    state_.calibration_json.clear();
    state_.earlier_calibration_json.clear();
  }
  const auto wanted = static_cast<std::int32_t>(state_.ranks_of(back.node).size());
  const bool suffice = back.devices <= 0 || back.devices >= wanted;
  if (state_.profiles_anew()) return leave_profiling_anew();
  if (state_.wants_no_ranks() || state_.phase == Phase::kStopping || state_.phase == Phase::kUntuned) return;
  if (suffice && (!profiles_first() || view_.held() || state_.job.mode != JobMode::kAuto)) return;
  if (suffice) return kill_ranks(AfterKill::kRelaunch);
  state_.failure =
      change + ", with " + std::to_string(back.devices) + " devices where the job needs " + std::to_string(wanted);
  kill_ranks(AfterKill::kHalt);
}

// Before the next launch. Ranks that live are ended for it in mode auto alone.
bool Tuning::profiles_first() const {
  return state_.hardware.unprofiled && state_.tune && lost_.empty() && state_.job.mode != JobMode::kObserve &&
         steers_ranks(state_.phase) && enough_steps_for_trial(state_);
}

void Tuning::profile_anew() {
  state_.hardware.unprofiled = false;
  state_.profiling.costs_wanted = state_.profiling.costs_reused = 0;
  // As a launch has one, of whatever runs on the job's devices.
  state_.launch = std::max(state_.launch, launch_seen_) + 1;
  if (state_.has_trial()) fail_trial(FailureReason::kWithdrawn, "every node is other hardware than it was", false);
  out_.note("drift",
            "no node is of the hardware that the job's costs were measured on: they are measured on what there is " +
                std::string("now, then the job goes on from its last snapshot"));
  profile();
}

void Tuning::profiled_anew() {
  if (state_.hardware.other_hardware.empty()) {
    for (const NodeShare& share : state_.nodes) {
      state_.hardware.other_hardware += (state_.hardware.other_hardware.empty() ? "" : ", ") + share.node;
    }
  }
  enter(Phase::kMeasuring);
  launch_ranks(state_.incumbent, "", state_.step == 0, 0);
}

// What benchmarks there run are ended; then the ranks are launched, or profiled once more, as it is due.
void Tuning::leave_profiling_anew() {
  commands_.forget(CommandKind::kBenchmark);
  enter(Phase::kMeasuring);
  kill_ranks(AfterKill::kRelaunch, KillReach::kAll);
}

// The ranks run the incumbent on what there is now: as on nodes that have joined, it is the plan to begin from.
void Tuning::measure_anew() {
  const std::string nodes = std::exchange(state_.hardware.other_hardware, "");
  if (state_.has_trial())
    fail_trial(FailureReason::kWithdrawn, "node " + nodes + " is other hardware than it was", false);
  out_.note("drift", "the running plan is measured anew, with node " + nodes + " as it is now");
  state_.initial = state_.incumbent;
  state_.initial_predicted = state_.incumbent_predicted;
  elastic_.forget_spare();
  state_.replaced.clear();
  state_.forget_measurements();
  hardware_.begin_anew();
  enter(Phase::kMeasuring);
  settled();
}

}  // namespace trimtab::coordinator
