#include "tuning/search/search_task.hpp"

#include <algorithm>
#include <cmath>

#include "tuning/state.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kLinksShift = 3;     // how much more a link may have changed than the step that it is a part of
constexpr double kProbedShift = 0.1;  // of a link's or a device's costs, scaled by what a probe says

// How unsure a drift makes of what was learnt before: only of what it may have changed.
Shift shift_of(const Drift& drift) {
  if (drift.by_look) return {drift.devices ? kProbedShift : 0, drift.links ? kProbedShift : 0};
  const double step = std::abs(std::log(drift.after_ms / drift.before_ms));
  if (drift.links && !drift.devices) return {0, kProbedShift};
  if (drift.devices && !drift.links) return {std::min(step, kProbedShift), 0};
  return {step, kLinksShift * step};
}

}  // namespace

SearchTask search_task(const TuningState& state) {
  SearchTask task;
  task.model_json = state.model_json;
  task.cluster = state.cluster;
  task.knobs = state.job.knobs;
  task.own_knobs = state.job.own_knobs;
  task.own_written = written_settings(state.job);
  task.ranks = state.world_size();
  task.target = state.job.target;
  task.live = !state.is_restarted();
  task.strategy = state.job.strategy;
  task.initial = state.initial.empty() ? PlanText(state.job.initial_plan_json, "") : state.initial;
  task.incumbent = state.incumbent;
  task.observations = state.observations;
  task.calibration_json = state.earlier_calibration_json;
  task.excluded = state.failed_hashes;
  task.excluded.insert(task.excluded.end(), state.hung_hashes.begin(), state.hung_hashes.end());
  if (!state.hardware.drifts.empty()) task.shift = shift_of(state.hardware.drifts.back());
  task.link_changes = link_changes(state.hardware.first_probes, state.hardware.last_probes);
  std::vector<std::string> nodes;
  for (const NodeShare& share : state.nodes) nodes.push_back(share.node);
  task.doubted = doubtful_pairs(state.hardware.link_faults, nodes);
  for (const auto& [pair, device] : task.doubted) {  // priced as their level, until they are measured
    task.link_changes.pairs.try_emplace(pair, task.link_changes.of_level(level_of(pair)));
  }
  task.slow_devices = state.hardware.slow_devices;
  task.measured_again = state.hardware.measured_again();
  task.excluded.insert(task.excluded.end(), state.forgotten.tried.begin(), state.forgotten.tried.end());
  for (const Trial& trial : state.trials) {
    if (trial.id <= state.trials_before_resize) continue;
    if (state.was_tried(trial.plan.hash)) task.excluded.push_back(trial.plan.hash);
    if (trial.reason == FailureReason::kOutOfMemory) task.too_big.push_back({trial.plan, trial.peak_bytes});
  }
  // Near copies of what was measured take places in the list and are not tried. Plans that are cut elsewhere are off
  // together: where all in the list are so, one trial ends the tuning.
  task.plans = 4 * (static_cast<std::size_t>(std::max(state.job.trials.candidates, 1)) + 2) + state.observations.size();
  task.of_a_shape = task.plans / 4;
  task.seed = state.search.searches;
  return task;
}

SearchTask task_on(const TuningState& state, const ClusterText& cluster) {
  SearchTask task = search_task(state);
  task.cluster = cluster;
  task.live = false;  // other ranks are launched
  task.calibration_json = state.calibration_json;
  task.initial = {};
  task.incumbent = {};
  task.observations.clear();
  task.excluded.clear();
  task.too_big.clear();
  return task;
}

SearchTask spare_task(const TuningState& state) {
  SearchTask task = task_on(state, state.elastic.spare.cluster);
  task.slow_devices.clear();
  return task;
}

const PricedPlan* fastest(const SearchReply& reply) {
  const auto best = std::min_element(
      reply.candidates.begin(), reply.candidates.end(),
      [](const PricedPlan& a, const PricedPlan& b) { return a.predicted.mean_ms < b.predicted.mean_ms; });
  return best == reply.candidates.end() ? nullptr : &*best;
}

}  // namespace trimtab::coordinator
