#include "jobs/cost_needs.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "tuner/cost_choice.hpp"
#include "tuner/needed_costs.hpp"
#include "tuning/trial/comparison.hpp"

namespace trimtab::coordinator {

namespace {

// Starting the benchmark processes costs seconds, so portions are large; progress within one comes from the agent.
constexpr std::size_t kItemsOfRequest = 32;
constexpr std::size_t kNamesShown = 5;

// Equal for keys that one benchmark item fills.
auto item_of(const CostKey& key) {
  int family = 10 + static_cast<int>(key.kind);
  switch (key.kind) {
    case CostKind::kOperatorForward:
    case CostKind::kOperatorBackward:
    case CostKind::kOperatorStoredBytes:
    case CostKind::kOperatorWorkingBytes:
      family = 0;
      break;
    case CostKind::kOverlapComputation:
    case CostKind::kOverlapCommunication:
      family = 1;
      break;
    default:
      break;
  }
  return std::make_tuple(family, key.subject, key.dtype, key.samples, key.tp, key.sharding, key.bytes, key.group_size,
                         key.placement);
}

}  // namespace

std::vector<std::vector<CostKey>> portions(std::vector<CostKey> keys, std::size_t items) {
  std::stable_sort(keys.begin(), keys.end(),
                   [](const CostKey& a, const CostKey& b) { return item_of(a) < item_of(b); });
  std::vector<std::vector<CostKey>> all;
  std::size_t in_portion = items;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const bool new_item = i == 0 || item_of(keys[i - 1]) != item_of(keys[i]);
    if (new_item && in_portion++ == items) {
      all.emplace_back();
      in_portion = 1;
    }
    all.back().push_back(keys[i]);
  }
  return all;
}

namespace {

void ask_for(const std::vector<CostKey>& keys, const Model& model, CostsCounted& counted) {
  for (const auto& portion : portions(keys, kItemsOfRequest)) {
    counted.requests.push_back(tuner::benchmark_requests_json(portion, model));
    counted.request_sizes.push_back(static_cast<std::int32_t>(portion.size()));
  }
}

// Launches whose passes are known. REQUIRES: sorted.
std::int32_t launches_alone(const std::vector<CostKey>& missing) {
  return static_cast<std::int32_t>(std::ranges::count_if(missing, [&](const CostKey& key) {
    return key.is_launch() && !std::ranges::binary_search(missing, key.launched());
  }));
}

void count(std::size_t all, const std::vector<CostKey>& missing, CostsCounted& counted) {
  counted.missing = static_cast<std::int32_t>(missing.size());
  counted.known = static_cast<std::int32_t>(all - std::min(all, missing.size()));
  counted.launches_missing = launches_alone(missing);
  for (std::size_t i = 0; i < std::min(missing.size(), kNamesShown); ++i) {
    counted.missing_names += (i > 0 ? ", " : "") + describe(missing[i]);
  }
}

}  // namespace

CostsCounted count_costs(const Model& model, const Cluster& cluster, const Knobs& knobs, std::vector<Cost> known,
                         const std::map<std::string, std::vector<Cost>>& elsewhere, bool launches) {
  CostsCounted counted;
  const std::vector<CostKey> needed = tuner::needed_costs(model, cluster, knobs, {}, launches);
  for (const auto& [fingerprint, there] : elsewhere) {
    const MeasuredSpeed measured = measured_speed(needed, known, there);
    if (!measured.is_sure()) known = known_of_both(std::move(known), there);
    if (measured.operators == 0) continue;
    for (const Node& node : cluster.nodes) {
      if (node.fingerprint == fingerprint) counted.speeds[node.name] = measured.speed;
    }
  }
  const std::vector<CostKey> missing = tuner::needed_costs(model, cluster, knobs, known, launches);
  count(needed.size(), missing, counted);
  ask_for(missing, model, counted);
  return counted;
}

CostsCounted count_costs_near(const Model& model, const Cluster& cluster, const Knobs& knobs, std::vector<Cost> known,
                              const NearFound& found, const tuner::NearHardware& near, bool decided, bool launches) {
  const std::vector<CostKey> needed = tuner::needed_costs(model, cluster, knobs, {}, launches);
  const std::vector<CostKey> missing = tuner::needed_costs(model, cluster, knobs, known, launches);
  const std::vector<CostKey> probes = tuner::near_probes(model, needed, near);
  if (missing.empty() || probes.empty()) return count_costs(model, cluster, knobs, std::move(known), {}, launches);
  std::vector<CostKey> unknown;
  std::ranges::set_intersection(probes, missing, std::back_inserter(unknown));
  const std::int32_t untold = launches_alone(unknown);
  if (decided && untold > 0 && untold == std::ranges::count_if(probes, &CostKey::is_launch)) {
    CostsCounted counted = count_costs_near(model, cluster, knobs, std::move(known), found, near, decided);
    counted.launches_untold = untold;
    return counted;
  }
  CostsCounted counted;
  counted.near.found = found;
  if (!decided) {
    count(needed.size(), missing, counted);
    counted.near.probing = true;
    counted.near.probes_missing = static_cast<std::int32_t>(unknown.size());
    ask_for(unknown, model, counted);
    return counted;
  }
  counted.near.findings = tuner::compare_with_near(needed, known, near);
  std::ranges::move(tuner::take_over_confirmed(near, counted.near.findings), std::back_inserter(known));
  const std::vector<CostKey> left = tuner::needed_costs(model, cluster, knobs, known, launches);
  count(needed.size(), left, counted);
  counted.near.taken_over = static_cast<std::int32_t>(missing.size() - std::min(missing.size(), left.size()));
  counted.known -= counted.near.taken_over;
  ask_for(left, model, counted);
  return counted;
}

namespace {

bool is_operator_time(const CostKey& key) {
  return key.kind == CostKind::kOperatorForward || key.kind == CostKind::kOperatorBackward;
}

std::map<CostKey, double> operator_times(const std::vector<Cost>& costs) {
  std::map<CostKey, double> times;
  for (const tuner::ChosenCost& cost : tuner::choose_costs(costs)) {
    const double mean = cost.statistics.mean();
    if (is_operator_time(cost.key) && mean > 0) times[cost.key] = mean;
  }
  return times;
}

}  // namespace

MeasuredSpeed measured_speed(const std::vector<CostKey>& needed, const std::vector<Cost>& here,
                             const std::vector<Cost>& there) {
  const std::map<CostKey, double> times_here = operator_times(here);
  const std::map<CostKey, double> times_there = operator_times(there);
  MeasuredSpeed measured;
  std::vector<double> speeds;
  for (const CostKey& key : needed) {
    const auto known = times_here.find(canonical(key));
    if (known == times_here.end()) continue;
    ++measured.known;
    const auto other = times_there.find(known->first);
    if (other != times_there.end()) speeds.push_back(known->second / other->second);
  }
  measured.operators = speeds.size();
  if (!speeds.empty()) measured.speed = median(speeds);
  return measured;
}

std::vector<Cost> known_of_both(std::vector<Cost> here, const std::vector<Cost>& there) {
  const std::map<CostKey, double> times = operator_times(there);
  std::erase_if(here,
                [&](const Cost& one) { return is_operator_time(one.key) && !times.contains(canonical(one.key)); });
  return here;
}

}  // namespace trimtab::coordinator
