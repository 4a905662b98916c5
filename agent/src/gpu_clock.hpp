#pragma once

// How far a GPU's %globaltimer is ahead of the host's CLOCK_REALTIME, as bounds from pairs of readings say
// (record::kClock): a line above and one below the true difference, for clocks drift. Each is the line that lies on one
// side of all of its points and nearest to them (S. B. Moon, P. Skelly, D. Towsley, "Estimation and Removal of Clock
// Skew from Network Delay Measurements", INFOCOM 1999, section 3); the estimate lies midway. Pure. Single-threaded.

#include <cstdint>
#include <deque>
#include <optional>

namespace trimtab::agent {

class GpuClock final {
 public:
  static constexpr std::size_t kKept = 32;  // bounds of a side: about as many seconds
  // A crystal's drift and what a host's clock is steered by are below this.
  static constexpr double kMostDrift = 500e-6;
  // Where only one side is known: nobody sees a stamp later than this all the time.
  static constexpr std::int64_t kOneSidedNs = 1'000'000;
  // A bound that contradicts the other side's line by more: one of the clocks was set, and what was known is forgotten.
  static constexpr std::int64_t kStepNs = 1'000'000;

  struct Offset {
    std::int64_t ns = 0;               // the GPU's clock less the host's
    std::uint64_t uncertainty_ns = 0;  // the truth lies within this, either way
  };

  // The true difference at `gpu_ns` is not below `difference` (`below`), or not above it.
  void add(std::uint64_t gpu_ns, std::int64_t difference, bool below);
  // Nothing where no bound is known.
  [[nodiscard]] std::optional<Offset> at(std::uint64_t gpu_ns) const;

 private:
  struct Point {
    double x = 0;  // seconds since origin_ns_
    double y = 0;  // nanoseconds above origin_difference_
  };
  struct Side {
    std::deque<Point> points;
    double slope = 0;  // nanoseconds a second
    double height = 0;
    [[nodiscard]] double line(double x) const { return height + slope * x; }
  };
  static void fit(Side& side, double sign);

  std::uint64_t origin_ns_ = 0;
  std::int64_t origin_difference_ = 0;
  Side below_;
  Side above_;
};

}  // namespace trimtab::agent
