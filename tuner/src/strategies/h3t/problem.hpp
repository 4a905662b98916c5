#pragma once

// What H3T's solvers are asked and what they answer. Plain values.

#include <limits>
#include <span>

#include "h3t_model/segment_simulator.hpp"

namespace trimtab::tuner::h3t {

inline constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max() / 4;

// Switches for these layers so that a step is fast and fits. REQUIRES: check_layers().
struct Problem {
  std::span<const LayerProfile> layers;
  Fabric fabric = Fabric::kNvlink;
  Bytes device_limit = kUnlimited;  // allocated bytes of one rank
  Bytes host_limit = kUnlimited;    // of one rank

  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(layers.size()); }
  [[nodiscard]] bool fits(const StepOutcome& outcome) const {
    return outcome.peak <= device_limit && outcome.host <= host_limit;
  }
};

// Its outcome is what a whole simulation of its switches gives.
struct Solution {
  Switching switches;
  StepOutcome outcome;
};

[[nodiscard]] inline Solution solution_of(const Problem& problem, Switching switches) {
  Solution solution{std::move(switches), {}};
  solution.outcome = SegmentSimulator(problem.layers, problem.fabric).step(solution.switches);
  return solution;
}

}  // namespace trimtab::tuner::h3t
