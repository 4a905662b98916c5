#include "solvers/autopipe/branch_and_bound.hpp"

#include <utility>

namespace trimtab::tuner::autopipe {
namespace {

constexpr std::uint64_t kLooksBetweenStops = 4096;

class BranchAndBound {
 public:
  BranchAndBound(const Partitions& partitions, const PartitionFloor& floor, Simulator& simulator, Planned from,
                 std::uint64_t effort, const std::function<bool()>& stop)
      : partitions_(partitions),
        floor_(floor),
        simulator_(simulator),
        best_(std::move(from)),
        until_(simulator.work() + effort),
        stop_(stop),
        ends_(static_cast<std::size_t>(partitions.stages())) {}

  Proof run(double good_enough) {
    double proven = std::min(floor_.least(), best_.time);
    double share = 1.0 / 16;  // of the way from the bound to the best
    const double wanted = std::min(good_enough, best_.time);
    while (proven < std::min(good_enough, best_.time) && !over_) {
      const double most = std::min(good_enough, best_.time);
      threshold_ = share >= 1 || most == kNever ? most : proven + share * (wanted - proven);
      if (!(threshold_ > proven)) threshold_ = most;
      threshold_ = std::min(threshold_, most);
      branch(0, 0, 0);
      // A partition below the threshold is the best there is: all below it were looked at.
      if (!over_) proven = std::min(threshold_, best_.time);
      share *= 2;
    }
    return {std::move(best_), proven};
  }

 private:
  // Stages [0, x) hold blocks [0, begin) and are filled after `filled`.
  void branch(std::int32_t x, std::int32_t begin, double filled) {
    const std::int32_t stages = partitions_.stages();
    const std::int32_t blocks = partitions_.blocks();
    const std::int32_t least = x + 1 == stages ? blocks : begin + 1;
    const std::int32_t furthest = std::min(partitions_.reach(x, begin), blocks - (stages - 1 - x));
    for (std::int32_t end = least; end <= furthest && !over_; ++end) {
      spend(4);
      if (filled + partitions_.microbatches() * partitions_.work(begin, end) >= limit()) return;
      const double passed = filled + floor_.passing(x, begin, end);
      if (passed + floor_.rest(x + 1, end) >= limit()) continue;
      if (filled + floor_.of_stage(x, begin, end) >= limit() || pairs_exceed(x, {begin, end}, filled)) continue;
      ends_[x] = end;
      if (x + 1 < stages) {
        branch(x + 1, end, passed);
      } else {
        leaf();
      }
    }
  }

  [[nodiscard]] double limit() const { return std::min(threshold_, best_.time); }

  [[nodiscard]] bool pairs_exceed(std::int32_t z, const PartitionFloor::Stage& at, double filled) {
    spend(2 * z);
    for (std::int32_t x = 0; x < z; ++x) {
      if (floor_.of_pair(x, {x > 0 ? ends_[x - 1] : 0, ends_[x]}, z, at, filled) >= limit()) return true;
    }
    return false;
  }

  void leaf() {
    const double time = simulator_.time(ends_);
    if (time < best_.time) best_ = {ends_, time};
    if (stop_ && stop_()) over_ = true;
  }

  // Floors cost too, some actions each: whole subtrees are pruned without a leaf.
  void spend(std::int32_t floors) {
    simulator_.count(static_cast<std::uint64_t>(floors));
    over_ = over_ || simulator_.work() >= until_ || (++looks_ % kLooksBetweenStops == 0 && stop_ && stop_());
  }

  const Partitions& partitions_;
  const PartitionFloor& floor_;
  Simulator& simulator_;
  Planned best_;
  const std::uint64_t until_;
  const std::function<bool()>& stop_;
  double threshold_ = kNever;
  bool over_ = false;
  std::uint64_t looks_ = 0;
  Ends ends_;
};

}  // namespace

Proof branch_and_bound(const Partitions& partitions, const PartitionFloor& floor, Simulator& simulator, Planned from,
                       std::uint64_t effort, double good_enough, const std::function<bool()>& stop) {
  return BranchAndBound(partitions, floor, simulator, std::move(from), effort, stop).run(good_enough);
}

}  // namespace trimtab::tuner::autopipe
