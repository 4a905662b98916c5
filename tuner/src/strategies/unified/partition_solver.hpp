#pragma once

// Cuts a chain of operators into stages on consecutive devices so that (rounds * slowest stage + sum of all stages) is
// least: the iteration time of a steady pipeline of rounds + 1 microbatches. A backward dynamic program over (stages
// left, devices left, cut) minimizes the sum under a cap on the slowest stage; a branch and bound over the cap finds
// the best trade of the two and proves it. Source: the exact optima of the peer data; the formula is Aceso's (EuroSys
// 2024, section 3.4). Deterministic. One per microbatch size; not thread-safe.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "pricing/stage_pricer.hpp"

namespace trimtab::tuner::unified {

struct PartitionStage {
  std::int32_t end = 0, devices = 1;
  bool operator==(const PartitionStage&) const = default;
};

struct Partition {
  double slowest = 0, sum = 0;
  std::vector<PartitionStage> stages;
  [[nodiscard]] double objective(double rounds) const { return rounds * slowest + sum; }
};

struct PartitionSpace {
  std::int32_t operators = 1, devices = 1;
  std::int32_t stages_min = 1, stages_max = 1;
  double rounds = 0;                        // microbatches - 1
  std::vector<std::int32_t> device_counts;  // of a stage, ascending
  std::vector<bool> node_begin;             // by device, one past the last included: stages may not lie across
};

class PartitionSolver {
 public:
  // Both must outlive this. `stop` is asked now and then; once true the solver answers with what it has.
  PartitionSolver(const PartitionSpace& space, StagePricer& pricer, std::function<bool()> stop)
      : space_(space), pricer_(pricer), stop_(std::move(stop)) {
    for (const std::int32_t count : space.device_counts) {
      if (count <= space.devices && pricer.allows(count)) counts_.push_back(count);
    }
    const std::size_t planes = plane(space.stages_max, space.devices) + 1;
    cells_.resize(planes);
    cell_begin_.resize(planes);
    windows_.resize(planes);
  }

  // Cuts that may be used from now on: begins of stages, ascending, without 0. Of them `light` ones send little.
  void use_cuts(std::vector<std::int32_t> cuts, const std::vector<std::int32_t>& light = {}) {
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

  // Only plans whose stages have these devices, from now on; all of them where empty.
  void use_structure(const std::vector<std::int32_t>& devices) {
    planes_in_use_.assign(devices.empty() ? 0 : cells_.size(), false);
    stages_in_use_ = static_cast<std::int32_t>(devices.size());
    std::int32_t left = 0;
    std::int32_t sum = 0;
    for (std::size_t s = devices.size(); s-- > 0;) {
      sum += devices[s];
      planes_in_use_[plane(++left, sum)] = true;
    }
  }

  // Whether stages may have these devices one after the other.
  [[nodiscard]] bool may_use(const std::vector<std::int32_t>& devices) const {
    std::int32_t first = 0;
    for (const std::int32_t count : devices) {
      if (!std::binary_search(counts_.begin(), counts_.end(), count) || !may_place(first, count)) return false;
      first += count;
    }
    return true;
  }

  // Searches until nothing over these cuts is better than `best` by more than `tolerance` (relative), and hands every
  // plan that it meets to `found`, which answers with the objective to beat from then on. Returns a floor under the
  // objective of every plan over these cuts that is better than the one to beat (which is the floor otherwise).
  double search(double best, double tolerance, const std::function<double(const Partition&)>& found) {
    if (counts_.empty()) return best;
    stopped_ = stop_ && stop_();
    const double rounds = space_.rounds;
    const double least_slowest = pricer_.least_device_time() / space_.devices;
    const double least_sum = pricer_.least_time();
    std::vector<Interval> open{{least_slowest, kInfinite, least_sum, false}};
    const auto floor_of = [rounds](const Interval& interval) { return rounds * interval.low + interval.sum; };
    int growths = 0;
    while (!open.empty()) {
      const auto next = std::min_element(
          open.begin(), open.end(), [&](const Interval& a, const Interval& b) { return floor_of(a) < floor_of(b); });
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
      // Up to the slowest stage of the least sum nothing has a smaller sum; from there to the cap it is the best
      // itself.
      if (cap < interval.high) open.push_back({cap, interval.high, interval.sum, interval.tight});
      if (slowest * kBelow > interval.low) open.push_back({interval.low, slowest * kBelow, sum, true});
    }
    return best * (1 - tolerance);
  }

  // The least slowest stage and little more, over these cuts, by longest stages: stages from the end backwards, each
  // as long as the cap lets it be, bisected over the cap. Takes times to grow with a stage, which they nearly do:
  // quick, and no proof. Looks for plans better than `best` and hands them to `found`, as search() does.
  void least_pace(double best, double tolerance, const std::function<double(const Partition&)>& found) {
    if (counts_.empty() || space_.rounds <= 0) return;
    stopped_ = stop_ && stop_();
    double none = pricer_.least_device_time() / space_.devices;  // no plan is known within this cap
    double some = kInfinite;                                     // one is within this
    double cap = best < kInfinite ? best : none * kPaceGrowth;
    for (int step = 0; step < kPaceSteps && !stopped_; ++step) {
      // A slower stage than this cannot be made up for.
      cap = std::min(cap, (best - pricer_.least_time()) / space_.rounds);
      if (cap <= none * (1 + tolerance)) return;
      const std::vector<Partition> plans = plans_within(cap);
      if (plans.empty()) none = cap;
      for (const Partition& plan : plans) {
        some = std::min(some, plan.slowest);
        best = found(plan);
      }
      cap = some < kInfinite ? (none + some) / 2 : cap * kPaceGrowth;
    }
  }

  // A floor for any plan over any cuts, without a search.
  [[nodiscard]] double simple_floor() const {
    return space_.rounds * pricer_.least_device_time() / space_.devices + pricer_.least_time();
  }
  [[nodiscard]] std::uint64_t prices() const { return prices_; }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
  static constexpr double kGrowth = 1.25;  // of the cap, until there is a plan
  static constexpr int kGrowths = 24;
  static constexpr std::int32_t kPricesBetweenStops = 500;
  static constexpr double kBelow = 1 - 1e-13;  // the next smaller cap
  static constexpr double kPaceGrowth = 1.08;  // of the cap, until there is a plan
  static constexpr int kPaceSteps = 64;
  static constexpr std::ptrdiff_t kBeyond = 8;
  static constexpr std::int32_t kPacePricesBetweenStops = 100;

  struct Cell {
    double sum = std::numeric_limits<double>::infinity();
    std::int32_t next = -1;  // index of the cut where the stage ends
    std::int32_t devices = 0;
  };
  struct Window {  // cut indices that have a finite cell
    std::int32_t first = 0, last = -1;
    [[nodiscard]] bool empty() const { return last < first; }
  };
  struct Interval {  // of the cap: slowest stages in (low, high]; `sum` is a floor of the sum there
    double low, high, sum;
    bool tight;  // a pass has found that sum
  };

  // Plans whose slowest stage is at most `cap`, of least sum, for each count of stages. Empty: there is none, or
  // stopped.
  std::vector<Partition> solve(double cap) {
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
  // Stages that end where a suffix of one stage fewer begins, the longest and the longest from a light cut.
  struct Longest {
    struct Stage {
      std::int32_t begin = -1;  // index of its cut; -1: there is none
      std::int32_t devices = 0;
      std::int32_t next = 0;  // which stage of the suffix it ends at
    };
    Stage stages[2];
  };

  // Plans of longest stages within the cap, one for each count of stages that has one.
  std::vector<Partition> plans_within(double cap) {
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
  [[nodiscard]] Longest longest(std::int32_t left, std::int32_t devices, double cap) {
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
      if (asked_ < kPacePricesBetweenStops) continue;
      asked_ = 0;
      stopped_ = stopped_ || (stop_ && stop_());
    }
    if (best.stages[0].begin == best.stages[1].begin) best.stages[1] = {};
    return best;
  }
  void add_longest(std::int32_t end, std::int32_t next, std::size_t count, const StagePlace& place, double cap,
                   Longest& best) {
    const std::int32_t reached = reach_[space_.stages_max - place.left][place.first_device];
    const std::vector<std::int32_t>* const cuts[] = {&inner_, &light_};
    for (int i = 0; i < 2; ++i) {
      const std::int32_t begin = first_begin(*cuts[i], end, count, place, cap);
      Longest::Stage& stage = best.stages[i];
      // Floors alone may say that no stages before reach so far.
      if (begin > 0 && begin <= reached && (stage.begin < 0 || begin < stage.begin))
        stage = {begin, place.devices, next};
    }
  }
  [[nodiscard]] double time(std::int32_t begin, std::int32_t end, const StagePlace& place) {
    ++prices_;
    ++asked_;
    return pricer_.times(position(begin), {&positions_[end], 1}, place)[0];
  }
  [[nodiscard]] bool whole_fits(std::int32_t end, std::size_t count, const StagePlace& place, double cap) {
    return extents_[count][0] >= end && time(0, end, place) <= cap;
  }
  // The first of the cuts that a stage may begin with to end there within the cap; -1 if there is none.
  // By floors first, then by times between there and the end.
  [[nodiscard]] std::int32_t first_begin(const std::vector<std::int32_t>& cuts, std::int32_t end, std::size_t count,
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
  [[nodiscard]] Partition trace_longest(std::int32_t stages) {
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
  // Floors grow with a stage, so the last end moves forward with its begin.
  void prepare_extents(double cap) {
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
  void prepare_reach() {
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
  void fill(std::int32_t left, std::int32_t devices, double cap) {
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
  void fill_cell(std::int32_t left, std::int32_t devices, std::int32_t cut, double cap) {
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
  [[nodiscard]] bool may_place(std::int32_t first_device, std::int32_t count) const {
    for (std::int32_t device = first_device + 1; device < first_device + count; ++device) {
      if (space_.node_begin[device]) return false;
    }
    return true;
  }
  [[nodiscard]] std::int32_t position(std::int32_t cut) const { return positions_[cut]; }
  [[nodiscard]] Partition trace(std::int32_t stages) const {
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
  Cell& cell(std::int32_t left, std::int32_t devices, std::int32_t cut) {
    const std::size_t index = plane(left, devices);
    return cells_[index][cut - cell_begin_[index]];
  }
  [[nodiscard]] const Cell& cell(std::int32_t left, std::int32_t devices, std::int32_t cut) const {
    const std::size_t index = plane(left, devices);
    return cells_[index][cut - cell_begin_[index]];
  }
  [[nodiscard]] std::size_t plane(std::int32_t left, std::int32_t devices) const {
    return static_cast<std::size_t>(left) * (space_.devices + 1) + devices;
  }

  const PartitionSpace& space_;
  StagePricer& pricer_;
  std::function<bool()> stop_;
  bool stopped_ = false;
  std::int32_t asked_ = 0;                          // prices since the last time that stop_ was
  std::vector<bool> planes_in_use_;                 // empty: all
  std::int32_t stages_in_use_ = 0;                  // 0: all
  std::vector<std::int32_t> counts_;                // of devices that stages may have
  std::vector<std::int32_t> positions_;             // 0, the cuts, operators
  std::vector<std::int32_t> inner_, light_;         // indices of cuts, and of the light ones
  std::vector<std::vector<Cell>> cells_;            // by plane, from the window's first possible cut on
  std::vector<std::int32_t> cell_begin_;            // by plane: the cut of its first cell
  std::vector<Window> windows_;                     // by plane
  std::vector<std::vector<std::int32_t>> extents_;  // by index of count, cut: the last cut where a stage may end
  std::vector<std::vector<std::int32_t>> reach_;    // by stages, devices: the last cut that they may bring the model to
  std::vector<Longest> longest_;                    // by plane
  std::uint64_t prices_ = 0;
};

}  // namespace trimtab::tuner::unified
