#pragma once

// Sequences of device counts, stage by stage, near a given one. Pure.

#include <cstdint>
#include <vector>

#include "strategies/unified/partition_solver.hpp"

namespace trimtab::tuner::unified {

// One stage or two in a row moved elsewhere, one stage halved into two, or two neighbours of the same count merged;
// without repeats.
[[nodiscard]] std::vector<std::vector<std::int32_t>> orders_near(const PartitionSpace& space,
                                                                 const std::vector<std::int32_t>& devices);

}  // namespace trimtab::tuner::unified
