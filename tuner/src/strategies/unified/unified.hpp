#pragma once

// The product's own strategy: exact where it can be, with a bound that says how far from the best it may be.

#include "partition_solver.hpp"
#include "plan_space.hpp"

namespace trimtab::tuner::unified {

// What the solver may do, from the search's space.
[[nodiscard]] PartitionSpace partition_space(const PlanSpace& space, std::int32_t rounds);

}  // namespace trimtab::tuner::unified
