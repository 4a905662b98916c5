// A node has come back as other hardware: the running plan is measured anew, and costs where nobody has the hardware
// any more that they were measured on.

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/text_parts.hpp"
#include "schema/cluster.hpp"
#include "schema/device_memory.hpp"
#include "tuning/hardware/retuning.hpp"
#include "tuning/trial/budget.hpp"

namespace trimtab::coordinator {
namespace {

std::string change_of(const NodeBack& back, const std::string& former) {
  return "node " + back.node + " came back as other hardware: fingerprint " + back.fingerprint + " instead of " +
         former;
}

}  // namespace

Next Retuning::handle(const NodeBack& back) {
  if (back.fingerprint.empty() || m_.state.cluster.empty()) return {};
  TRIMTAB_ASSERT(m_.state.cluster.said() != nullptr, "the job's cluster was made when its nodes were chosen");
  Cluster cluster = *m_.state.cluster.said();
  const auto node = std::ranges::find(cluster.nodes, back.node, &Node::name);
  if (node == cluster.nodes.end() || node->fingerprint == back.fingerprint) return {};
  const std::string former = std::exchange(node->fingerprint, back.fingerprint);
  if (back.memory_bytes > 0) node->memory_bytes = device_memory(m_.state.job, back.memory_bytes);
  m_.state.cluster = cluster;
  m_.out.changed = true;
  const std::string change = change_of(back, former);
  m_.out.note("drift", change + ". Costs that were measured on it, and what was learnt of it, are of the former");
  m_.out.decide("measure the job anew", change);
  if (!m_.state.has_ranks() && !m_.state.profiles_anew()) {
    m_.state.failure = change + " while the job was prepared. Hand the job in again";
    return {Next::kEndPreparation};
  }
  if (m_.hardware.replace(back, former, cluster)) {  // nothing learnt from here on is a fact of the former
    m_.state.fingerprint = m_.state.hardware.costs_hardware;
    m_.state.calibration_json.clear();
    m_.state.earlier_calibration_json.clear();
  }
  const auto wanted = static_cast<std::int32_t>(m_.state.ranks_of(back.node).size());
  const bool suffice = back.devices <= 0 || back.devices >= wanted;
  if (m_.state.profiles_anew()) return {Next::kMeasureAnew};
  if (m_.state.wants_no_ranks() || m_.state.phase == Phase::kStopping || m_.state.phase == Phase::kUntuned) return {};
  if (suffice && (!profiles_first() || m_.view.held() || m_.state.job.mode != JobMode::kAuto)) return {};
  if (suffice) return launch_.kill(AfterKill::kRelaunch);
  m_.state.failure =
      change + ", with " + std::to_string(back.devices) + " devices where the job needs " + std::to_string(wanted);
  return launch_.kill(AfterKill::kHalt);
}

bool Retuning::profiles_first() const {
  return m_.state.hardware.unprofiled && m_.state.tune && m_.lost.empty() && m_.state.job.mode != JobMode::kObserve &&
         steers_ranks(m_.state.phase) && enough_steps_for_trial(m_.state);
}

Next Retuning::profile_anew() {
  m_.state.hardware.unprofiled = false;
  m_.state.profiling.costs_wanted = m_.state.profiling.costs_reused = 0;
  m_.state.profiling.near = {};
  // As a launch has one, of whatever runs on the job's devices.
  m_.state.launch = launch_.next_number();
  if (m_.state.has_trial()) m_.fail_trial(FailureReason::kWithdrawn, "every node is other hardware than it was", false);
  m_.out.note("drift",
              "no node is of the hardware that the job's costs were measured on: they are measured on what there is "
              "now, then the job goes on from its last snapshot");
  return {Next::kProfile};
}

void Retuning::profiled_anew() {
  std::string& nodes = m_.state.hardware.other_hardware;
  if (nodes.empty()) nodes = joined(m_.state.nodes, ", ", &NodeShare::node);
}

void Retuning::begin_measuring_anew() {
  const std::string nodes = std::exchange(m_.state.hardware.other_hardware, "");
  if (m_.state.has_trial())
    m_.fail_trial(FailureReason::kWithdrawn, "node " + nodes + " is other hardware than it was", false);
  m_.out.note("drift", "the running plan is measured anew, with node " + nodes + " as it is now");
  m_.begin_anew(PlanText(m_.state.incumbent), Predicted(m_.state.incumbent_predicted));
}

}  // namespace trimtab::coordinator
