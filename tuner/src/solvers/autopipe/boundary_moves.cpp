#include "solvers/autopipe/boundary_moves.hpp"

#include <utility>

namespace trimtab::tuner::autopipe {
namespace {

class BoundaryMoves {
 public:
  BoundaryMoves(const Partitions& partitions, const PartitionFloor& floor, Simulator& simulator, Planned from,
                std::uint64_t effort, const std::function<bool()>& stop)
      : partitions_(partitions),
        floor_(floor),
        simulator_(simulator),
        best_(std::move(from)),
        until_(simulator.work() + effort),
        stop_(stop),
        cuts_(partitions.stages() - 1) {}

  Planned run() {
    while (!over() && (single() || pair() || a_run())) {
    }
    return best_;
  }

 private:
  [[nodiscard]] bool over() const { return simulator_.work() >= until_ || (stop_ && stop_()); }

  bool single() {
    for (const std::int32_t by : {-1, 1, -2, 2}) {
      for (std::int32_t cut = 0; cut < cuts_; ++cut) {
        if (moved(cut, cut + 1, by)) return true;
      }
    }
    return false;
  }

  // Neighbouring boundaries together are a run; here they move apart or towards one another, or are further apart.
  bool pair() {
    for (const std::int32_t by : {-1, 1}) {
      for (const std::int32_t other : {-1, 1}) {
        for (std::int32_t cut = 0; cut < cuts_; ++cut) {
          for (std::int32_t second = cut + 1; second < cuts_; ++second) {
            if (by == other && second == cut + 1) continue;
            if (moved_both(cut, by, second, other)) return true;
          }
        }
      }
    }
    return false;
  }

  bool a_run() {
    for (const std::int32_t by : {-1, 1}) {
      for (std::int32_t first = 0; first < cuts_; ++first) {
        for (std::int32_t last = first + 2; last <= cuts_; ++last) {
          if (moved(first, last, by)) return true;
        }
      }
    }
    return false;
  }

  bool moved(std::int32_t first, std::int32_t last, std::int32_t by) {
    tried_ = best_.ends;
    for (std::int32_t cut = first; cut < last; ++cut) tried_[cut] += by;
    return better();
  }

  bool moved_both(std::int32_t cut, std::int32_t by, std::int32_t second, std::int32_t other) {
    tried_ = best_.ends;
    tried_[cut] += by;
    tried_[second] += other;
    return better();
  }

  bool better() {
    simulator_.count(static_cast<std::uint64_t>(partitions_.stages()));
    if (!partitions_.allowed(tried_) || over()) return false;
    if (floor_.quick(tried_) >= best_.time || floor_.of(tried_) >= best_.time) return false;
    const double time = simulator_.time(tried_);
    if (time >= best_.time) return false;
    best_.time = time;
    best_.ends.swap(tried_);
    return true;
  }

  const Partitions& partitions_;
  const PartitionFloor& floor_;
  Simulator& simulator_;
  Planned best_;
  const std::uint64_t until_;
  const std::function<bool()>& stop_;
  const std::int32_t cuts_;
  Ends tried_;
};

}  // namespace

Planned move_boundaries(const Partitions& partitions, const PartitionFloor& floor, Simulator& simulator, Planned from,
                        std::uint64_t effort, const std::function<bool()>& stop) {
  return BoundaryMoves(partitions, floor, simulator, std::move(from), effort, stop).run();
}

}  // namespace trimtab::tuner::autopipe
