#include "charts/stage_time.hpp"

#include <algorithm>
#include <map>

#include "charts/gantt.hpp"

namespace trimtab::cli {

namespace {

using tuner::EventKind;
using tuner::TimelineEvent;

Activity activity_of(EventKind kind) {
  constexpr std::array<Activity, kTimelineKinds.size()> kOf{Activity::kForward,      Activity::kBackward,
                                                            Activity::kRecompute,    Activity::kTransfer,
                                                            Activity::kGradientSync, Activity::kOptimizer};
  return kOf.at(static_cast<std::size_t>(kind));
}

struct Edge {
  double at = 0;
  std::size_t activity = 0;
  int change = 0;  // +1: begins, -1: ends
};

// Between two edges the first activity in the order of the enumeration that goes on has the time: computation first.
StageTime swept(std::int32_t stage, std::vector<Edge> edges, double end) {
  std::ranges::stable_sort(edges, {}, &Edge::at);
  StageTime time{stage, {}};
  std::array<int, kActivities> running{};
  double now = 0;
  const auto spend_until = [&](double until) {
    const auto found = std::ranges::find_if(running, [](int count) { return count > 0; });
    const bool waits = found == running.end();
    const auto which = waits ? kActivities - 1 : static_cast<std::size_t>(found - running.begin());
    time.ms[which] += std::max(0.0, until - now);
    now = std::max(now, until);
  };
  for (const Edge& edge : edges) {
    spend_until(std::clamp(edge.at, 0.0, end));
    running[edge.activity] += edge.change;
  }
  spend_until(end);
  return time;
}

}  // namespace

std::string_view to_string(Activity activity) {
  constexpr std::array<std::string_view, kActivities> kNames{
      "forward", "backward", "recompute", "optimizer", "exposed gradient sync", "exposed transfer", "waiting"};
  return kNames.at(static_cast<std::size_t>(activity));
}

std::vector<StageTime> stage_times(const std::vector<TimelineEvent>& timeline) {
  std::map<std::int32_t, std::vector<Edge>> edges;
  for (const TimelineEvent& event : timeline) {
    if (event.end_ms <= event.begin_ms) continue;
    const auto activity = static_cast<std::size_t>(activity_of(event.kind));
    edges[event.stage].push_back({event.begin_ms, activity, 1});
    edges[event.stage].push_back({event.end_ms, activity, -1});
  }
  std::vector<StageTime> times;
  for (auto& [stage, list] : edges) times.push_back(swept(stage, std::move(list), end_of(timeline)));
  return times;
}

std::array<double, kActivities> mean_shares(const std::vector<StageTime>& stages) {
  std::array<double, kActivities> shares{};
  double all = 0;
  for (const StageTime& stage : stages) {
    for (std::size_t i = 0; i < kActivities; ++i) shares[i] += stage.ms[i];
    for (const double ms : stage.ms) all += ms;
  }
  if (all <= 0) return {};
  for (double& share : shares) share /= all;
  return shares;
}

}  // namespace trimtab::cli
