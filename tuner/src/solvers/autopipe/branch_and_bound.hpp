#pragma once

// Branch and bound over the cuts, first stage first, by PartitionFloor: the optimum where the effort allows, else the
// best bound that it has proven. The threshold rises from the least floor to the best time known: what is below it is
// seen in full before more is asked, so every completed threshold is a bound. Deterministic.

#include <cstdint>
#include <functional>

#include "solvers/autopipe/boundary_moves.hpp"

namespace trimtab::tuner::autopipe {

struct Proof {
  Planned best;
  double lower_bound = 0;  // no partition takes less
  [[nodiscard]] bool exact() const { return lower_bound >= best.time; }
};

// `from` is a partition to beat, or nothing (time = kNever). `good_enough`: what is not faster than this need not be
// told apart; the search ends once its bound is there.
[[nodiscard]] Proof branch_and_bound(const Partitions& partitions, const PartitionFloor& floor, Simulator& simulator,
                                     Planned from, std::uint64_t effort, double good_enough = kNever,
                                     const std::function<bool()>& stop = {});

}  // namespace trimtab::tuner::autopipe
