#pragma once

// AutoPipe's planner: the fastest partition of a chain of blocks into the stages of a 1F1B pipeline, proven or with its
// gap. The paper's own steps come first (Algorithm 1, then the search around the master stage); local search and branch
// and bound follow. Pure and deterministic: effort is counted in simulated actions.

#include <cstdint>
#include <functional>

#include "solvers/autopipe/branch_and_bound.hpp"

namespace trimtab::tuner::autopipe {

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
