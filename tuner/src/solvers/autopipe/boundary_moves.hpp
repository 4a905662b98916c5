#pragma once

// Local search over a partition's boundaries: one boundary by one or two blocks, two at once, or a run of boundaries by
// one block. A move is simulated only where its floor leaves room. Deterministic.

#include <cstdint>
#include <functional>

#include "solvers/autopipe/master_shift.hpp"
#include "solvers/autopipe/partition_floor.hpp"

namespace trimtab::tuner::autopipe {

// Moves that gain, the first found each time, until none is left, the effort (of the simulator's work) is spent or
// `stop` says so.
[[nodiscard]] Planned move_boundaries(const Partitions& partitions, const PartitionFloor& floor, Simulator& simulator,
                                      Planned from, std::uint64_t effort, const std::function<bool()>& stop = {});

}  // namespace trimtab::tuner::autopipe
