// One node fewer: the best plan for what would be left is kept ready, and taken when a node does not come back.

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.hpp"
#include "base/numbers.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

// A search that found nothing is made again: what is known of costs and memory grows.
constexpr Nanoseconds kSearchAgain = std::chrono::minutes(10);

Cluster parsed(const std::string& cluster_json) {
  auto cluster = parse_cluster(cluster_json, "the job's cluster");
  TRIMTAB_ASSERT(cluster.ok(), "the job's cluster was parsed when its nodes were chosen");
  return std::move(cluster).value();
}

Cluster without(Cluster cluster, const std::set<std::string>& nodes) {
  std::erase_if(cluster.nodes, [&](const Node& node) { return nodes.contains(node.name); });
  std::erase_if(cluster.links, [&](const Link& link) {
    return link.between && (nodes.contains(link.between->first) || nodes.contains(link.between->second));
  });
  return cluster;
}

// A plan for one is a plan for the other: what they are called does not matter.
bool alike(const Cluster& a, const Cluster& b) {
  const auto same = [](const Node& x, const Node& y) {
    return std::tie(x.fingerprint, x.devices, x.memory_bytes) == std::tie(y.fingerprint, y.devices, y.memory_bytes);
  };
  return std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), same);
}

std::string listed(const std::set<std::string>& nodes) {
  std::string text;
  for (const std::string& node : nodes) text += (text.empty() ? "" : ", ") + node;
  return text;
}

}  // namespace

// Which node will be lost nobody knows: the last stands for its like.
void Tuning::prepare_spare() {
  if (!state_.elastic || state_.nodes.size() < 2 || state_.job.mode == JobMode::kObserve) return;
  const std::set<std::string> missing = lost_.empty() ? std::set{state_.nodes.back().node} : lost_;
  if (!has_no_spare(without(parsed(state_.cluster_json), missing))) search_spare(missing);
}

void Tuning::search_spare(const std::set<std::string>& missing) {
  state_.spare = {{}, {}, to_json(without(parsed(state_.cluster_json), missing))};
  spare_search_ = ++state_.searches;
  act(SearchPlans{spare_search_, true});
}

// What trials have taught of the cluster as a whole holds for a part of it; plans that ran do not fit it.
SearchTask Tuning::spare_task() const {
  SearchTask task = search_task();
  task.cluster_json = state_.spare.cluster_json;
  task.calibration_json = state_.calibration_json;
  task.initial_plan_json.clear();
  task.incumbent_json.clear();
  task.observations.clear();
  task.excluded.clear();
  task.too_big.clear();
  return task;
}

void Tuning::take_spare(const SearchReply& reply) {
  spare_search_ = 0;
  const auto best = std::min_element(
      reply.candidates.begin(), reply.candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.predicted.mean_ms < b.predicted.mean_ms; });
  if (best == reply.candidates.end()) {
    no_spare_ = state_.spare.cluster_json;
    no_spare_at_ = now_.monotonic;
    return note("warning", "no plan for one node fewer: " + (reply.error.empty() ? reply.infeasible : reply.error));
  }
  state_.spare.plan = best->plan;
  state_.spare.predicted = best->predicted;
  transition();
  note("plan",
       "a plan for one node fewer is kept ready, predicted at " + format_ms(best->predicted.mean_ms) + " a step",
       best->plan.json);
}

// Nodes are away. For as long as ranks may be silent they are waited for; an elastic job then goes on without them.
void Tuning::tick_lost() {
  if (!state_.elastic || !steers_ranks(state_.phase) || held()) return;
  if (now_.monotonic - lost_at_ <= state_.job.trials.deadline || lost_.size() >= state_.nodes.size()) return;
  const Cluster left = without(parsed(state_.cluster_json), lost_);
  const bool ready = !state_.spare.plan.empty() && alike(left, parsed(state_.spare.cluster_json));
  if (ready) return shrink(left);
  if (spare_search_ == 0 && !has_no_spare(left)) search_spare(lost_);
}

bool Tuning::has_no_spare(const Cluster& left) const {
  if (no_spare_.empty() || now_.monotonic - no_spare_at_ > kSearchAgain) return false;
  return alike(left, parsed(no_spare_));
}

// The job begins anew on what is left, from its last snapshot, with the plan that was kept ready. Plans, steps and
// costs of trials were of another cluster; what was learnt about costs stays.
void Tuning::shrink(const Cluster& left) {
  note("ranks",
       "node " + listed(lost_) + " did not come back within the deadline: the job goes on without, on " +
           std::to_string(left.devices()) + " devices and the plan that was kept ready",
       state_.spare.plan.json);
  decided("go on with " + std::to_string(left.devices()) + " devices", "node " + listed(lost_) + " did not come back");
  if (state_.has_trial()) fail_trial("agent lost", "node " + listed(lost_) + " did not come back", false);
  state_.resizes.push_back({state_.step, listed(lost_), left.devices(), state_.spare.plan.hash});
  std::erase_if(state_.nodes, [&](const NodeShare& share) { return lost_.contains(share.node); });
  std::erase_if(state_.outstanding, [&](const OutstandingCommand& one) { return lost_.contains(one.node); });
  lost_.clear();
  state_.ranks = 0;
  for (NodeShare& share : state_.nodes) share.first_rank = std::exchange(state_.ranks, state_.ranks + share.ranks);
  state_.cluster_json = to_json(left);
  assembly_ = StepAssembly(world_size());
  state_.initial = state_.incumbent = state_.spare.plan;
  state_.initial_predicted = state_.incumbent_predicted = state_.spare.predicted;
  state_.spare = {};
  state_.replaced.clear();
  no_spare_.clear();
  forget_measurements();
  state_.relaunches = 0;
  enter(Phase::kLaunching);
  kill_ranks(AfterKill::kRelaunch);
}

void Tuning::forget_measurements() {
  state_.initial_measured = state_.incumbent_measured = {};
  state_.observations.clear();
  state_.earlier_calibration_json = state_.calibration_json;
  state_.trials_before_drift = state_.trials_before_resize = static_cast<std::int32_t>(state_.trials.size());
  state_.comparisons_begun = 0;
  state_.compared = false;
  state_.first_probes.clear();
  state_.last_probes.clear();
  for (Drift& drift : state_.drifts) drift.handled = true;
  change_point_.reset();
}

}  // namespace trimtab::coordinator
