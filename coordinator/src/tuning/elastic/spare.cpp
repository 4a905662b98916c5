// One node fewer: the best plan for what would be left is kept ready, and taken when a node does not come back.

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.hpp"
#include "base/numbers.hpp"
#include "tuning/hardware/changed_hardware.hpp"
#include "tuning/search/search_task.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

// A search that found nothing is made again: what is known of costs and memory grows.
constexpr Nanoseconds kSearchAgain = std::chrono::minutes(10);
// A plan for what is left is searched for, if none is ready, once nodes are away for this part of the deadline: before
// that they may come back one by one, as after a coordinator's start.
constexpr int kSoonBack = 4;

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

// Devices are numbered through the nodes that there are; what is known of their speed goes with them.
std::map<std::int32_t, double> devices_left(const Cluster& before, const Cluster& left,
                                            const std::map<std::int32_t, double>& slow) {
  std::set<std::string> staying;
  for (const Node& node : left.nodes) staying.insert(node.name);
  std::map<std::int32_t, double> renumbered;
  std::int32_t device = 0;
  std::int32_t next = 0;
  for (const Node& node : before.nodes) {
    for (std::int32_t i = 0; i < node.devices; ++i, ++device) {
      if (!staying.contains(node.name)) continue;
      const auto known = slow.find(device);
      if (known != slow.end()) renumbered[next] = known->second;
      ++next;
    }
  }
  return renumbered;
}

// A plan for one is a plan for the other: what they are called does not matter.
bool alike(const Cluster& a, const Cluster& b) {
  const auto same = [](const Node& x, const Node& y) {
    return std::tie(x.fingerprint, x.devices, x.memory_bytes, x.speeds) ==
           std::tie(y.fingerprint, y.devices, y.memory_bytes, y.speeds);
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
  if (!state_.job.elastic || state_.nodes.size() < 2 || state_.job.mode == JobMode::kObserve) return;
  const std::set<std::string> missing = lost_.empty() ? std::set{state_.nodes.back().node} : lost_;
  if (!has_no_spare(what_is_left(missing))) search_spare(missing);
}

// With what a drift has left of its devices' speed.
Cluster Tuning::what_is_left(const std::set<std::string>& missing) const {
  const Cluster before = parsed(state_.cluster_json);
  Cluster left = without(before, missing);
  slow_devices(devices_left(before, left, state_.hardware.slow_devices), left);
  return left;
}

void Tuning::search_spare(const std::set<std::string>& missing) {
  state_.spare = {{}, {}, to_json(what_is_left(missing))};
  searches_.ask(SearchFor::kSpare, out_);
}

void Tuning::take_spare(const SearchReply& reply) {
  const Candidate* const best = fastest(reply);
  if (best == nullptr) {
    no_spare_ = state_.spare.cluster_json;
    no_spare_at_ = now_.monotonic;
    return out_.note("warning",
                     "no plan for one node fewer: " + (reply.error.empty() ? reply.infeasible : reply.error));
  }
  state_.spare.plan = best->plan;
  state_.spare.predicted = best->predicted;
  out_.changed = true;
  out_.note("plan",
            "a plan for one node fewer is kept ready, predicted at " + format_ms(best->predicted.mean_ms) + " a step",
            best->plan.json);
}

// Nodes are away. For as long as ranks may be silent they are waited for, and a plan for what is left is made ready; an
// elastic job then goes on without them, unless nothing of it may be ended that nobody asked to end.
void Tuning::tick_lost() {
  const bool steered = steers_ranks(state_.phase) || state_.phase == Phase::kLaunching;
  if (!state_.job.elastic || !steered || view_.held()) return;
  if (lost_what_joined()) return go_back("node " + listed(lost_) + " was lost");
  if (lost_.size() >= state_.nodes.size()) return;
  const Nanoseconds away = now_.monotonic - lost_at_;
  const Nanoseconds deadline = state_.job.trials.deadline;
  if (state_.job.mode == JobMode::kObserve) return away > deadline ? wait_for_lost() : void();
  if (away <= deadline / kSoonBack) return;
  const Cluster left = what_is_left(lost_);
  const bool ready = !state_.spare.plan.empty() && alike(left, parsed(state_.spare.cluster_json));
  if (ready) return away > deadline ? shrink() : void();
  if (!searches_.is_asked(SearchFor::kSpare) && !has_no_spare(left)) search_spare(lost_);
}

void Tuning::wait_for_lost() {
  if (std::exchange(wait_told_, lost_at_) == lost_at_) return;
  out_.note("warning",
            "node " + listed(lost_) +
                " did not come back within the deadline. The job is in mode observe: it waits, and nothing is "
                "begun anew without it");
}

bool Tuning::has_no_spare(const Cluster& left) const {
  if (no_spare_.empty() || now_.monotonic - no_spare_at_ > kSearchAgain) return false;
  return alike(left, parsed(no_spare_));
}

// The job begins anew on what is left, from its last snapshot, with the plan that was kept ready. Plans, steps and
// costs of trials were of another cluster; what was learnt about costs stays.
void Tuning::shrink() {
  const Cluster before = parsed(state_.cluster_json);
  const Cluster left = without(before, lost_);
  out_.note("ranks",
            "node " + listed(lost_) + " did not come back within the deadline: the job goes on without, on " +
                std::to_string(left.devices()) + " devices and the plan that was kept ready",
            state_.spare.plan.json);
  out_.decide("go on with " + std::to_string(left.devices()) + " devices",
              "node " + listed(lost_) + " did not come back");
  if (state_.has_trial()) fail_trial(FailureReason::kAgentLost, "node " + listed(lost_) + " did not come back", false);
  state_.hardware.slow_devices = devices_left(before, left, state_.hardware.slow_devices);
  state_.resizes.push_back({state_.step, listed(lost_), left.devices(), state_.spare.plan.hash, ""});
  state_.resizes.back().trials_before = state_.trials_begun();
  std::erase_if(state_.nodes, [&](const NodeShare& share) { return lost_.contains(share.node); });
  std::erase_if(state_.outstanding, [&](const OutstandingCommand& one) { return lost_.contains(one.node); });
  lost_.clear();
  state_.ranks = 0;
  for (NodeShare& share : state_.nodes) share.first_rank = std::exchange(state_.ranks, state_.ranks + share.ranks);
  state_.cluster_json = to_json(left);
  state_.before = {};
  overhead_.begin_anew();
  const Spare spare = state_.spare;
  begin_anew(spare.plan, spare.predicted);
  kill_ranks(AfterKill::kRelaunch);
}

// The first step on other nodes.
void Tuning::tell_where_it_goes_on(std::int64_t first) {
  const bool is_first = state_.phase == Phase::kLaunching && state_.doing == Doing::kLaunching;
  if (!is_first || state_.resizes.empty()) return;
  const std::string devices = "on " + std::to_string(state_.world_size()) + " devices the job ";
  if (first > 0 || state_.step == 0) {
    const std::int64_t again = std::max<std::int64_t>(state_.step - first + 1, 0);
    return out_.note("ranks", devices + "goes on at step " + std::to_string(first) + "; " + std::to_string(again) +
                                  " steps are trained again");
  }
  const std::string where = state_.is_restarted() ? "checkpoint" : "snapshots";
  out_.note("warning", devices + "has begun at step 0 again, after " + std::to_string(state_.step) +
                           " steps: its ranks found nothing to go on from. Its " + where +
                           " must be where every node that may be left reaches them, and be saved while it trains");
}

void Tuning::forget_measurements() {
  state_.initial_measured = state_.incumbent_measured = {};
  state_.observations.clear();
  state_.earlier_calibration_json = state_.calibration_json;
  state_.begin_trials_anew();
  state_.trials_before_resize = state_.trials_begun();
  state_.comparisons_begun = 0;
  state_.compared = state_.retuned_compared = false;
  state_.retuned_from = {};
  state_.trials_before_tuning = state_.trials_begun();
  hardware_.begin_anew();
}

}  // namespace trimtab::coordinator
