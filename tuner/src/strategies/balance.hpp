#pragma once

// Cuts that balance the stages' computing time: a start for alleviation. Pure.

#include <cstdint>
#include <optional>
#include <vector>

#include "evaluator.hpp"

namespace trimtab::tuner {

struct Balanced {
  Candidate candidate;
  double busiest_ms = 0;  // computing of the busiest stage over a step, without recompute: no cut has less
};

// The cuts that minimize the busiest stage's computing time, for these devices of the stages. Nothing where a needed
// cost is missing or there are too few cuts.
[[nodiscard]] std::optional<Balanced> balance(const CostTable::Tables& tables, const Calibration& calibration,
                                              const PlanSpace& space, std::int32_t microbatch,
                                              const std::vector<std::int32_t>& devices);

}  // namespace trimtab::tuner
