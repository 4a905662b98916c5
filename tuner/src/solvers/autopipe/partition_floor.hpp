#pragma once

// What a partition takes at least, from simple paths through the step, and the least of that over all partitions.
//
// A path fills the pipeline up to stage x, stays there and drains it again: microbatches times the stage's work, with
// what its transfers hold up where they block; or, for the first or the last microbatch, goes down to the last stage
// and back before or after it stays at x. Every partition's step takes at least the longest of these. Two stays, one at
// a later stage z and one in the warm-up or cool-down of stage x before it, bound a whole partition further. Recompute
// is not counted: with it a step only takes longer. Immutable.

#include <cstdint>
#include <vector>

#include "solvers/autopipe/partition.hpp"

namespace trimtab::tuner::autopipe {

class PartitionFloor {
 public:
  // Under the memory limits of the partitions; O(blocks^2 x stages). Must not outlive them.
  explicit PartitionFloor(const Partitions& partitions);

  // No step of any partition takes less; kNever where no partition fits.
  [[nodiscard]] double least() const { return rest(0, 0); }
  // Of what follows once stages [0, stage) hold blocks [0, begin): the least floor, counted from when the pipeline is
  // filled up to `stage`.
  [[nodiscard]] double rest(std::int32_t stage, std::int32_t begin) const {
    return rest_[static_cast<std::size_t>(stage) * (partitions_.blocks() + 1) + begin];
  }
  // A partition whose floor is the least. REQUIRES: least() is finite.
  [[nodiscard]] Ends ends_of_least() const;

  // Of one stage, counted from when the pipeline is filled up to it.
  [[nodiscard]] double of_stage(std::int32_t stage, std::int32_t begin, std::int32_t end) const;
  // What filling and draining one stage and the hop behind it takes; a first half fills it in half the time.
  [[nodiscard]] double passing(std::int32_t stage, std::int32_t begin, std::int32_t end) const {
    const double hop = partitions_.transfer(stage, end);
    if (!partitions_.slices()) return partitions_.work(begin, end) + 2 * hop;
    return partitions_.forward(begin, end) / 2 + partitions_.backward(begin, end) + 1.5 * hop;
  }
  // Two stays: at `x` while the pipeline drains or fills, and at `z` behind it, whose pipeline is filled after
  // `filled`.
  struct Stage {
    std::int32_t begin, end;
  };
  [[nodiscard]] double of_pair(std::int32_t x, const Stage& first, std::int32_t z, const Stage& second,
                               double filled) const;
  // The longest of the single stays; and of all.
  [[nodiscard]] double quick(const Ends& ends) const;
  [[nodiscard]] double of(const Ends& ends) const;

 private:
  [[nodiscard]] double floor_from(std::int32_t stage, std::int32_t begin, std::int32_t end) const;

  const Partitions& partitions_;
  std::vector<double> rest_;  // [stage][begin]
};

}  // namespace trimtab::tuner::autopipe
