// One node fewer: the best plan for what would be left is kept ready, and taken when a node does not come back.

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.hpp"
#include "base/numbers.hpp"
#include "base/text_parts.hpp"
#include "tuning/elastic/elastic.hpp"
#include "tuning/hardware/changed_hardware.hpp"
#include "tuning/search/search_task.hpp"

namespace trimtab::coordinator {
namespace {

// A search that found nothing is made again: what is known of costs and memory grows.
constexpr Nanoseconds kSearchAgain = std::chrono::minutes(10);
// A plan for what is left is searched for, if none is ready, once nodes are away for this part of the deadline: before
// that they may come back one by one, as after a coordinator's start.
constexpr int kSoonBack = 4;

const Cluster& known(const ClusterText& cluster) {
  TRIMTAB_ASSERT(cluster.said() != nullptr, "the job's cluster was made when its nodes were chosen");
  return *cluster.said();
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

}  // namespace

// Which node will be lost nobody knows: the last stands for its like.
void Elastic::prepare_spare() {
  const TuningState& state = view_.state;
  if (!known_.spare.plan.empty() || searches_.is_asked(SearchFor::kSpare)) return;
  if (!state.job.elastic || state.nodes.size() < 2 || state.job.mode == JobMode::kObserve) return;
  const Cluster left = slowed_left(view_.lost.empty() ? std::set{state.nodes.back().node} : view_.lost);
  if (!has_no_spare(left)) search_spare(left);
}

void Elastic::search_spare(const Cluster& left) {
  known_.spare = {{}, {}, left};
  searches_.ask(SearchFor::kSpare, out_);
}

// With what a drift has left of its devices' speed.
Cluster Elastic::slowed_left(const std::set<std::string>& missing) const {
  const Cluster& before = known(view_.state.cluster);
  Cluster left = without(before, missing);
  slow_devices(devices_left(before, left, view_.state.hardware.slow_devices), left);
  return left;
}

void Elastic::take_spare(const SearchReply& reply) {
  const PricedPlan* const best = fastest(reply);
  if (best == nullptr) {
    no_spare_ = known_.spare.cluster;
    no_spare_at_ = view_.now.monotonic;
    return out_.note("warning",
                     "no plan for one node fewer: " + (reply.error.empty() ? reply.infeasible : reply.error));
  }
  known_.spare.plan = best->plan;
  known_.spare.predicted = best->predicted;
  out_.changed = true;
  out_.note("plan",
            "a plan for one node fewer is kept ready, predicted at " + format_ms(best->predicted.mean_ms) + " a step",
            best->plan.json);
}

void Elastic::forget_spare() {
  known_.spare = {};
  no_spare_ = {};
}

Next Elastic::tick_lost(Nanoseconds lost_at) {
  const TuningState& state = view_.state;
  const bool steered = steers_ranks(state.phase) || state.phase == Phase::kLaunching;
  if (!state.job.elastic || !steered || view_.held()) return {};
  if (lost_what_joined()) return {Next::kGoBack, "node " + joined(view_.lost) + " was lost"};
  if (view_.lost.size() >= state.nodes.size()) return {};
  const Nanoseconds away = view_.now.monotonic - lost_at;
  const Nanoseconds deadline = state.job.trials.deadline;
  if (state.job.mode == JobMode::kObserve) {
    if (away > deadline) wait_for_lost(lost_at);
    return {};
  }
  if (away <= deadline / kSoonBack) return {};
  const Cluster left = slowed_left(view_.lost);
  const bool ready = !known_.spare.plan.empty() && alike(left, known(known_.spare.cluster));
  if (ready) return {away > deadline ? Next::kShrink : Next::kNothing};
  if (!searches_.is_asked(SearchFor::kSpare) && !has_no_spare(left)) search_spare(left);
  return {};
}

void Elastic::wait_for_lost(Nanoseconds lost_at) {
  if (std::exchange(wait_told_, lost_at) == lost_at) return;
  out_.note("warning",
            "node " + joined(view_.lost) +
                " did not come back within the deadline. The job is in mode observe: it waits, and nothing is "
                "begun anew without it");
}

bool Elastic::has_no_spare(const Cluster& left) const {
  if (no_spare_.empty() || view_.now.monotonic - no_spare_at_ > kSearchAgain) return false;
  return alike(left, known(no_spare_));
}

Elastic::Left Elastic::what_is_left() const {
  const Cluster& before = known(view_.state.cluster);
  Cluster left = without(before, view_.lost);
  auto slow = devices_left(before, left, view_.state.hardware.slow_devices);
  return {std::move(left), std::move(slow)};
}

void Elastic::add_resize(Resize resize) {
  resize.trials_before = view_.state.trials_begun();
  known_.resizes.push_back(std::move(resize));
}

// The first step on other nodes.
void Elastic::tell_where_it_goes_on(std::int64_t first) {
  const bool is_first = view_.state.phase == Phase::kLaunching && view_.state.doing == Doing::kLaunching;
  if (!is_first || known_.resizes.empty()) return;
  const std::string devices = "on " + std::to_string(view_.state.world_size()) + " devices the job ";
  if (first > 0 || view_.state.step == 0) {
    const std::int64_t again = std::max<std::int64_t>(view_.state.step - first + 1, 0);
    return out_.note("ranks", devices + "goes on at step " + std::to_string(first) + "; " + std::to_string(again) +
                                  " steps are trained again");
  }
  const std::string where = view_.state.is_restarted() ? "checkpoint" : "snapshots";
  out_.note("warning", devices + "has begun at step 0 again, after " + std::to_string(view_.state.step) +
                           " steps: its ranks found nothing to go on from. Its " + where +
                           " must be where every node that may be left reaches them, and be saved while it trains");
}

}  // namespace trimtab::coordinator
