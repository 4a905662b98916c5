#pragma once

// AutoPipe's planner: the fastest partition of a chain of blocks into the stages of a 1F1B pipeline, proven or with its
// gap. The paper's own steps come first (Algorithm 1, then the search around the master stage); local search and branch
// and bound follow. Pure and deterministic: effort is counted in simulated actions.

#include "solvers/autopipe/partition.hpp"

namespace trimtab::tuner::autopipe {

// Algorithm 1 of AutoPipe: the partition whose heaviest stage is lightest, for every prefix of the blocks and every
// number of stages at once, under the stages' memory. Immutable once built.
class Balanced {
 public:
  // O(blocks x stages) where nothing limits memory, up to O(blocks^2 x stages) where it does. `partitions` must outlive
  // this.
  explicit Balanced(const Partitions& partitions);

  // The heaviest stage of the best way to cut blocks [0, blocks) into the first `stages` stages; kNever where none
  // fits.
  [[nodiscard]] double heaviest(std::int32_t blocks, std::int32_t stages) const {
    return least_[static_cast<std::size_t>(stages) * (partitions_.blocks() + 1) + blocks];
  }
  // Its ends, the last stage as large as it may be, then the one before, and so on. REQUIRES: heaviest() is finite.
  [[nodiscard]] Ends ends(std::int32_t blocks, std::int32_t stages) const;

 private:
  [[nodiscard]] double with_last(std::int32_t blocks, std::int32_t stages, std::int32_t begin) const;

  const Partitions& partitions_;
  std::vector<double> least_;  // [stages][blocks]
};

struct Planned {
  Ends ends;
  double time = kNever;
};

// AutoPipe's heuristic search (section III-B, steps 1 to 3, as the authors' planner has them): from Algorithm 1's
// partition, adjust the stages behind the master stage so that its cool-down has no bubble, then move a block of the
// master forward or back and balance what lies before it anew. Here for any number of microbatches, under memory, and
// never with an empty stage. The fastest of all partitions it simulates. Ends early after `effort` units of the
// simulator's work, or when `stop` (asked often) says so. REQUIRES: Algorithm 1 has an answer.
[[nodiscard]] Planned shift_master(const Partitions& partitions, const Balanced& balanced, Simulator& simulator,
                                   std::uint64_t effort, const std::function<bool()>& stop = {});

struct PlannerOptions {
  std::uint64_t effort = 24'000'000;  // actions: below 0.1 s on one core
  double good_enough = kNever;        // partitions that are not faster than this are of no interest
  Ends start;                         // a partition to begin from too; empty: none
  std::function<bool()> stop = {};
};

struct PartitionPlan {
  Planned best;      // time = kNever where no partition fits its memory
  Planned balanced;  // Algorithm 1's partition, without slices
  Planned shifted;   // and that of the paper's search
  double lower_bound = 0;
  std::uint64_t work = 0;  // actions that were simulated
  [[nodiscard]] bool exact() const { return lower_bound >= best.time; }
};

[[nodiscard]] PartitionPlan plan_partition(const Partitions& partitions, const PlannerOptions& options = {});

}  // namespace trimtab::tuner::autopipe
