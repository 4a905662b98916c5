#pragma once

// AutoPipe's heuristic search (section III-B, steps 1 to 3, as the authors' planner has them): from Algorithm 1's
// partition, adjust the stages behind the master stage so that its cool-down has no bubble, then move a block of the
// master forward or back and balance what lies before it anew. Here for any number of microbatches, under memory, and
// never with an empty stage.

#include <cstdint>
#include <functional>

#include "solvers/autopipe/balanced.hpp"
#include "solvers/autopipe/partition.hpp"

namespace trimtab::tuner::autopipe {

struct Planned {
  Ends ends;
  double time = kNever;
};

// The fastest of all partitions it simulates. Ends early after `effort` units of the simulator's work, or when `stop`
// (asked often) says so. REQUIRES: Algorithm 1 has an answer.
[[nodiscard]] Planned shift_master(const Partitions& partitions, const Balanced& balanced, Simulator& simulator,
                                   std::uint64_t effort, const std::function<bool()>& stop = {});

}  // namespace trimtab::tuner::autopipe
