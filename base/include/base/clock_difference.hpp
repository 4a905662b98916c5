#pragma once

// How far one clock (`theirs`) is ahead of another (`ours`), as bounds from pairs of readings say: whoever reads ours
// before theirs has a difference that the truth is not above; the other way round, not below. Clocks drift, evenly
// while the bounds are kept: the difference is a line that passes above all lower bounds and below all upper ones. At
// any time the truth lies between the lowest and the highest of such lines; the estimate is midway. (J.-M. Berthaud,
// "Time Synchronization over Networks Using Convex Closures", IEEE/ACM Transactions on Networking 8(2), 2000; here the
// range of slopes is found first, which leaves a little more room.) Pure. Single-threaded.

#include <cstdint>
#include <deque>
#include <optional>

namespace trimtab {

class ClockDifference final {
 public:
  static constexpr std::size_t kKept = 32;  // bounds of a side: about as many seconds
  // A crystal's drift and what a host's clock is steered by are below this.
  static constexpr double kMostDrift = 500e-6;
  // Where only one side is known: nobody sees a stamp later than this all the time.
  static constexpr std::int64_t kOneSidedNs = 1'000'000;
  // A bound that contradicts the other side's line by more: one of the clocks was set, and what was known is forgotten.
  static constexpr std::int64_t kStepNs = 1'000'000;

  struct Offset {
    std::int64_t ns = 0;               // theirs less ours
    std::uint64_t uncertainty_ns = 0;  // the truth lies within this, either way
  };

  // The true difference at `their_ns` is not below `difference` (`below`), or not above it.
  void add(std::uint64_t their_ns, std::int64_t difference, bool below);
  // Nothing where no bound is known.
  [[nodiscard]] std::optional<Offset> at(std::uint64_t their_ns) const;
  // Bounds of both sides are known: the uncertainty is theirs, not kOneSidedNs.
  [[nodiscard]] bool two_sided() const { return !below_.empty() && !above_.empty(); }

 private:
  struct Point {
    double x = 0;  // seconds since origin_ns_
    double y = 0;  // nanoseconds above origin_difference_
  };
  using Points = std::deque<Point>;
  [[nodiscard]] double low(double x) const;
  [[nodiscard]] double high(double x) const;
  void narrow_slopes();
  void find_slopes();

  std::uint64_t origin_ns_ = 0;
  std::int64_t origin_difference_ = 0;
  Points below_;
  Points above_;
  double least_slope_ = 0;  // nanoseconds a second
  double most_slope_ = 0;
};

}  // namespace trimtab
