#include "strategies/unified/partition_solver.hpp"

#include <algorithm>

namespace trimtab::tuner::unified {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kGrowth = 1.25;  // of the cap, until there is a plan
constexpr int kGrowths = 24;
constexpr std::int32_t kPricesBetweenStops = 500;
constexpr double kBelow = 1 - 1e-13;  // the next smaller cap

}  // namespace

PartitionSolver::PartitionSolver(const PartitionSpace& space, StagePricer& pricer, std::function<bool()> stop)
    : space_(space), pricer_(pricer), stop_(std::move(stop)) {
  for (const std::int32_t count : space.device_counts) {
    if (count <= space.devices && pricer.allows(count)) counts_.push_back(count);
  }
  const std::size_t planes = plane(space.stages_max, space.devices) + 1;
  cells_.resize(planes);
  cell_begin_.resize(planes);
  windows_.resize(planes);
}

void PartitionSolver::use_cuts(std::vector<std::int32_t> cuts, const std::vector<std::int32_t>& light) {
  positions_ = std::move(cuts);
  positions_.insert(positions_.begin(), 0);
  positions_.push_back(space_.operators);
  inner_.clear();
  light_.clear();
  for (std::size_t i = 1; i + 1 < positions_.size(); ++i) {
    inner_.push_back(static_cast<std::int32_t>(i));
    if (std::binary_search(light.begin(), light.end(), positions_[i])) light_.push_back(static_cast<std::int32_t>(i));
  }
}

void PartitionSolver::use_structure(const std::vector<std::int32_t>& devices) {
  planes_in_use_.assign(devices.empty() ? 0 : cells_.size(), false);
  stages_in_use_ = static_cast<std::int32_t>(devices.size());
  std::int32_t left = 0;
  std::int32_t sum = 0;
  for (std::size_t s = devices.size(); s-- > 0;) {
    sum += devices[s];
    planes_in_use_[plane(++left, sum)] = true;
  }
}

double PartitionSolver::simple_floor() const {
  return space_.rounds * pricer_.least_device_time() / space_.devices + pricer_.least_time();
}

bool PartitionSolver::may_place(std::int32_t first_device, std::int32_t count) const {
  for (std::int32_t device = first_device + 1; device < first_device + count; ++device) {
    if (space_.node_begin[device]) return false;
  }
  return true;
}

bool PartitionSolver::may_use(const std::vector<std::int32_t>& devices) const {
  std::int32_t first = 0;
  for (const std::int32_t count : devices) {
    if (!std::binary_search(counts_.begin(), counts_.end(), count) || !may_place(first, count)) return false;
    first += count;
  }
  return true;
}

PartitionSolver::Cell& PartitionSolver::cell(std::int32_t left, std::int32_t devices, std::int32_t cut) {
  const std::size_t index = plane(left, devices);
  return cells_[index][cut - cell_begin_[index]];
}

const PartitionSolver::Cell& PartitionSolver::cell(std::int32_t left, std::int32_t devices, std::int32_t cut) const {
  const std::size_t index = plane(left, devices);
  return cells_[index][cut - cell_begin_[index]];
}

// Floors grow with a stage, so the last end moves forward with its begin.
void PartitionSolver::prepare_extents(double cap) {
  const auto cuts = static_cast<std::int32_t>(positions_.size());
  extents_.assign(counts_.size(), std::vector<std::int32_t>(positions_.size()));
  for (std::size_t c = 0; c < counts_.size(); ++c) {
    std::int32_t end = 0;
    for (std::int32_t cut = 0; cut < cuts; ++cut) {
      end = std::max(end, cut);
      while (end + 1 < cuts && pricer_.floor(position(cut), position(end + 1), counts_[c]) <= cap) ++end;
      extents_[c][cut] = end;
    }
  }
}

void PartitionSolver::prepare_reach() {
  reach_.assign(static_cast<std::size_t>(space_.stages_max) + 1,
                std::vector<std::int32_t>(static_cast<std::size_t>(space_.devices) + 1, -1));
  for (std::int32_t stages = 0; stages <= space_.stages_max; ++stages) {
    reach_[stages][0] = 0;
    for (std::int32_t devices = 1; stages > 0 && devices <= space_.devices; ++devices) {
      std::int32_t& reach = reach_[stages][devices];
      for (std::size_t c = 0; c < counts_.size(); ++c) {
        const std::int32_t before = devices - counts_[c];
        if (before < 0 || reach_[stages - 1][before] < 0 || !may_place(before, counts_[c])) continue;
        reach = std::max(reach, extents_[c][reach_[stages - 1][before]]);
      }
    }
  }
}

void PartitionSolver::fill_cell(std::int32_t left, std::int32_t devices, std::int32_t cut, double cap) {
  Cell& best = cell(left, devices, cut);
  const std::int32_t first_device = space_.devices - devices;
  const auto end_cut = static_cast<std::int32_t>(positions_.size()) - 1;
  for (std::size_t c = 0; c < counts_.size(); ++c) {
    const std::int32_t count = counts_[c];
    if (count > devices || !may_place(first_device, count)) continue;
    if ((left == 1) != (count == devices)) continue;
    Window window{end_cut, end_cut};
    if (left > 1) window = windows_[plane(left - 1, devices - count)];
    const std::int32_t first = std::max(window.first, cut + 1);
    const std::int32_t last = std::min(window.last, extents_[c][cut]);
    if (last < first) continue;
    const std::span<const std::int32_t> ends(&positions_[first], static_cast<std::size_t>(last - first) + 1);
    const std::span<const double> times = pricer_.times(position(cut), ends, {first_device, count, left});
    for (std::int32_t end = first; end <= last; ++end) {
      const double time = times[end - first];
      if (time > cap) continue;
      const double rest = left == 1 ? 0 : cell(left - 1, devices - count, end).sum;
      if (time + rest < best.sum) best = {time + rest, end, count};
    }
    prices_ += static_cast<std::uint64_t>(last - first + 1);
    asked_ += last - first + 1;
    if (asked_ < kPricesBetweenStops) continue;
    asked_ = 0;
    stopped_ = stopped_ || (stop_ && stop_());
    if (stopped_) return;
  }
}

void PartitionSolver::fill(std::int32_t left, std::int32_t devices, double cap) {
  Window& window = windows_[plane(left, devices)];
  window = {};
  if (!planes_in_use_.empty() && !planes_in_use_[plane(left, devices)]) return;
  const bool whole = devices == space_.devices;
  const auto end_cut = static_cast<std::int32_t>(positions_.size()) - 1;
  const std::int32_t last = whole ? 0 : reach_[space_.stages_max - left][space_.devices - devices];
  if (last < (whole ? 0 : 1)) return;
  const std::int32_t highest = std::min(last, end_cut - left);
  const std::int32_t lowest = whole ? 0 : 1;
  if (highest < lowest) return;
  // Cells lie from the lowest cut that a stage of the widest count may still end in a window from.
  std::int32_t first = highest + 1;
  const std::int32_t first_device = space_.devices - devices;
  for (std::size_t c = 0; c < counts_.size(); ++c) {
    const std::int32_t count = counts_[c];
    if (count > devices || (left == 1) != (count == devices) || !may_place(first_device, count)) continue;
    Window next{end_cut, end_cut};
    if (left > 1) next = windows_[plane(left - 1, devices - count)];
    if (next.empty()) continue;
    const auto& extents = extents_[c];
    const auto enough = std::lower_bound(extents.begin() + lowest, extents.begin() + highest + 1, next.first);
    first = std::min(first, static_cast<std::int32_t>(enough - extents.begin()));
  }
  if (first > highest) return;
  const std::size_t index = plane(left, devices);
  cells_[index].assign(static_cast<std::size_t>(highest - first) + 1, {});
  cell_begin_[index] = first;
  Window filled{highest + 1, first - 1};
  for (std::int32_t cut = highest; cut >= first; --cut) {
    if (stopped_) break;
    fill_cell(left, devices, cut, cap);
    if (cell(left, devices, cut).sum == kInfinite) continue;
    filled.last = std::max(filled.last, cut);
    filled.first = cut;
  }
  window = filled;
}

std::vector<Partition> PartitionSolver::solve(double cap) {
  ++passes_;
  prepare_extents(cap);
  prepare_reach();
  std::vector<Partition> found;
  const std::int32_t most = stages_in_use_ > 0 ? stages_in_use_ : space_.stages_max;
  for (std::int32_t left = 1; left <= most && !stopped_; ++left) {
    for (std::int32_t devices = left; devices <= space_.devices && !stopped_; ++devices) {
      if (static_cast<std::int64_t>(left) * counts_.back() < devices) break;
      fill(left, devices, cap);
    }
    const Window& whole = windows_[plane(left, space_.devices)];
    if (left >= space_.stages_min && !stopped_ && !whole.empty()) found.push_back(trace(left));
    // Planes that this pass does not fill must not be read.
    for (std::int32_t devices = 0; devices <= space_.devices; ++devices) {
      const bool unfilled = devices < left || static_cast<std::int64_t>(left) * counts_.back() < devices;
      if (unfilled) windows_[plane(left, devices)] = {};
    }
  }
  return found;
}

Partition PartitionSolver::trace(std::int32_t stages) const {
  Partition partition;
  std::int32_t cut = 0;
  std::int32_t devices = space_.devices;
  partition.sum = cell(stages, devices, 0).sum;
  for (std::int32_t left = stages; left > 0; --left) {
    const Cell& from = cell(left, devices, cut);
    const double rest = left == 1 ? 0 : cell(left - 1, devices - from.devices, from.next).sum;
    partition.slowest = std::max(partition.slowest, from.sum - rest);
    partition.stages.push_back({position(from.next), from.devices});
    cut = from.next;
    devices -= from.devices;
  }
  return partition;
}

double PartitionSolver::search(double best, double tolerance, const std::function<double(const Partition&)>& found) {
  if (counts_.empty()) return best;
  stopped_ = stop_ && stop_();
  const double rounds = space_.rounds;
  const double least_slowest = pricer_.least_device_time() / space_.devices;
  const double least_sum = pricer_.least_time();
  std::vector<Interval> open{{least_slowest, kInfinite, least_sum, false}};
  const auto floor_of = [rounds](const Interval& interval) { return rounds * interval.low + interval.sum; };
  int growths = 0;
  while (!open.empty()) {
    const auto next = std::min_element(open.begin(), open.end(),
                                       [&](const Interval& a, const Interval& b) { return floor_of(a) < floor_of(b); });
    Interval interval = *next;
    if (stopped_) return std::min(best, floor_of(interval));
    open.erase(next);
    if (floor_of(interval) >= best * (1 - tolerance)) continue;
    // A slower stage than this cannot be made up for.
    const double useful = rounds > 0 ? (best - interval.sum) / rounds : kInfinite;
    interval.high = std::min(interval.high, useful);
    if (interval.high <= interval.low) continue;
    // The least sum of an interval is found at its upper end.
    double cap = interval.tight ? (interval.low + interval.high) / 2 : interval.high;
    if (interval.high == kInfinite) cap = growths++ < kGrowths ? interval.low * kGrowth : kInfinite;
    if (cap <= interval.low) continue;  // no number lies between
    const std::vector<Partition> plans = solve(cap);
    if (stopped_) {
      for (const Partition& plan : plans) best = found(plan);
      return std::min(best, floor_of(interval));
    }
    if (plans.empty()) {
      if (cap < interval.high) open.push_back({cap, interval.high, interval.sum, interval.tight});
      continue;
    }
    double sum = kInfinite;
    double slowest = cap;
    for (const Partition& plan : plans) {
      best = found(plan);
      if (plan.sum < sum) {
        sum = plan.sum;
        slowest = plan.slowest;
      }
    }
    // Up to the slowest stage of the least sum nothing has a smaller sum; from there to the cap it is the best itself.
    if (cap < interval.high) open.push_back({cap, interval.high, interval.sum, interval.tight});
    if (slowest * kBelow > interval.low) open.push_back({interval.low, slowest * kBelow, sum, true});
  }
  return best * (1 - tolerance);
}

}  // namespace trimtab::tuner::unified
