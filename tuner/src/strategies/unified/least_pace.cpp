// PartitionSolver::least_pace(): the quick search for a plan whose slowest stage is short.

#include <algorithm>

#include "strategies/unified/partition_solver.hpp"

namespace trimtab::tuner::unified {
namespace {

constexpr double kGrowth = 1.08;  // of the cap, until there is a plan
constexpr int kSteps = 64;
constexpr std::ptrdiff_t kBeyond = 8;
constexpr std::int32_t kPricesBetweenStops = 100;

}  // namespace

double PartitionSolver::time(std::int32_t begin, std::int32_t end, const StagePlace& place) {
  ++prices_;
  ++asked_;
  return pricer_.times(position(begin), {&positions_[end], 1}, place)[0];
}

// By floors first, then by times between there and the end.
std::int32_t PartitionSolver::first_begin(const std::vector<std::int32_t>& cuts, std::int32_t end, std::size_t count,
                                          const StagePlace& place, double cap) {
  const std::vector<std::int32_t>& extents = extents_[count];
  const auto last = std::lower_bound(cuts.begin(), cuts.end(), end);
  auto fits =
      std::lower_bound(cuts.begin(), last, end, [&](std::int32_t cut, std::int32_t at) { return extents[cut] < at; });
  if (fits == last) return -1;
  if (time(*fits, end, place) <= cap) return *fits;
  const auto first = fits;
  auto too_long = fits;
  fits = last;
  while (fits - too_long > 1) {
    const auto middle = too_long + (fits - too_long) / 2;
    (time(*middle, end, place) <= cap ? fits : too_long) = middle;
  }
  // Beyond, some may fit all the same: where less is sent, or the rule of recompute takes less.
  for (auto more = fits; more != first && fits - more < kBeyond;) {
    if (time(*--more, end, place) <= cap) fits = more;
  }
  return fits == last ? -1 : *fits;
}

bool PartitionSolver::whole_fits(std::int32_t end, std::size_t count, const StagePlace& place, double cap) {
  return extents_[count][0] >= end && time(0, end, place) <= cap;
}

void PartitionSolver::add_longest(std::int32_t end, std::int32_t next, std::size_t count, const StagePlace& place,
                                  double cap, Longest& best) {
  const std::int32_t reached = reach_[space_.stages_max - place.left][place.first_device];
  const std::vector<std::int32_t>* const cuts[] = {&inner_, &light_};
  for (int i = 0; i < 2; ++i) {
    const std::int32_t begin = first_begin(*cuts[i], end, count, place, cap);
    Longest::Stage& stage = best.stages[i];
    // Floors alone may say that no stages before reach so far.
    if (begin > 0 && begin <= reached && (stage.begin < 0 || begin < stage.begin)) stage = {begin, place.devices, next};
  }
}

PartitionSolver::Longest PartitionSolver::longest(std::int32_t left, std::int32_t devices, double cap) {
  const std::int32_t first_device = space_.devices - devices;
  const auto last = static_cast<std::int32_t>(positions_.size()) - 1;
  Longest best;
  if (!planes_in_use_.empty() && !planes_in_use_[plane(left, devices)]) return best;
  for (std::size_t c = 0; c < counts_.size() && !stopped_; ++c) {
    const std::int32_t count = counts_[c];
    if (count > devices || (left == 1) != (count == devices) || !may_place(first_device, count)) continue;
    const StagePlace place{first_device, count, left};
    for (std::int32_t next = 0; next < (left == 1 ? 1 : 2); ++next) {
      const std::int32_t end = left == 1 ? last : longest_[plane(left - 1, devices - count)].stages[next].begin;
      if (end <= 0) continue;
      if (first_device > 0) {
        add_longest(end, next, c, place, cap, best);
      } else if (whole_fits(end, c, place, cap)) {
        best.stages[0] = {0, count, next};
        return best;
      }
    }
    if (asked_ < kPricesBetweenStops) continue;
    asked_ = 0;
    stopped_ = stopped_ || (stop_ && stop_());
  }
  if (best.stages[0].begin == best.stages[1].begin) best.stages[1] = {};
  return best;
}

Partition PartitionSolver::trace_longest(std::int32_t stages) {
  Partition partition;
  std::int32_t begin = 0;
  std::int32_t devices = space_.devices;
  std::int32_t which = 0;
  const auto last = static_cast<std::int32_t>(positions_.size()) - 1;
  for (std::int32_t left = stages; left > 0; --left) {
    const Longest::Stage& stage = longest_[plane(left, devices)].stages[which];
    const std::int32_t end =
        left == 1 ? last : longest_[plane(left - 1, devices - stage.devices)].stages[stage.next].begin;
    const double took = time(begin, end, {space_.devices - devices, stage.devices, left});
    partition.slowest = std::max(partition.slowest, took);
    partition.sum += took;
    partition.stages.push_back({position(end), stage.devices});
    begin = end;
    which = stage.next;
    devices -= stage.devices;
  }
  return partition;
}

std::vector<Partition> PartitionSolver::plans_within(double cap) {
  ++passes_;
  prepare_extents(cap);
  prepare_reach();
  longest_.assign(cells_.size(), {});
  std::vector<Partition> found;
  const std::int32_t most = stages_in_use_ > 0 ? stages_in_use_ : space_.stages_max;
  for (std::int32_t left = 1; left <= most; ++left) {
    for (std::int32_t devices = left; devices <= space_.devices; ++devices) {
      if (static_cast<std::int64_t>(left) * counts_.back() < devices) break;
      if (stopped_) return found;
      longest_[plane(left, devices)] = longest(left, devices, cap);
    }
    const bool any = longest_[plane(left, space_.devices)].stages[0].begin == 0;
    if (left >= space_.stages_min && any) found.push_back(trace_longest(left));
  }
  return found;
}

void PartitionSolver::least_pace(double best, double tolerance, const std::function<double(const Partition&)>& found) {
  if (counts_.empty() || space_.rounds <= 0) return;
  stopped_ = stop_ && stop_();
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  double none = pricer_.least_device_time() / space_.devices;  // no plan is known within this cap
  double some = kInfinite;                                     // one is within this
  double cap = best < kInfinite ? best : none * kGrowth;
  for (int step = 0; step < kSteps && !stopped_; ++step) {
    // A slower stage than this cannot be made up for.
    cap = std::min(cap, (best - pricer_.least_time()) / space_.rounds);
    if (cap <= none * (1 + tolerance)) return;
    const std::vector<Partition> plans = plans_within(cap);
    if (plans.empty()) none = cap;
    for (const Partition& plan : plans) {
      some = std::min(some, plan.slowest);
      best = found(plan);
    }
    cap = some < kInfinite ? (none + some) / 2 : cap * kGrowth;
  }
}

}  // namespace trimtab::tuner::unified
