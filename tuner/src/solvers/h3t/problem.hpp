#pragma once

// What H3T's solvers are asked and what they answer. Plain values.

#include <limits>

#include "solvers/h3t/segment_simulator.hpp"

namespace trimtab::tuner::h3t {

inline constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max() / 4;

// Switches for these layers so that a step is fast and fits. The paper's step has one microbatch; a pipeline's stage
// has several, each of them both passes, and as many as are in flight hold what their forward pass keeps. REQUIRES:
// layers that can be, counts of 1 or more, allowed.valid(), allowed.segment_sync.
struct Problem {
  std::span<const LayerProfile> layers;
  Fabric fabric = Fabric::kNvlink;
  Bytes device_limit = kUnlimited;  // allocated bytes of one rank
  Bytes host_limit = kUnlimited;    // of one rank
  std::int32_t microbatches = 1;
  std::int32_t in_flight = 1;
  // What a layer may have on; all on is a choice itself. The published solvers take no other than all.
  AllowedSwitches allowed = {kAllOn};

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

// A step's microbatches are alike: one is simulated. `simulator` is of the problem's layers and fabric.
[[nodiscard]] inline StepOutcome outcome_of(const Problem& problem, SegmentSimulator& simulator,
                                            std::span<const LayerSwitches> switches) {
  StepOutcome outcome = simulator.step(switches);
  outcome.runtime += (problem.microbatches - 1) * simulator.passes();
  for (std::size_t i = 0; i < switches.size() && problem.in_flight > 1; ++i) {
    outcome.peak += (problem.in_flight - 1) * retained_bytes(problem.layers[i], switches[i]);
    outcome.host += (problem.in_flight - 1) * offloaded_bytes(problem.layers[i], switches[i]);
  }
  return outcome;
}

[[nodiscard]] inline Solution solution_of(const Problem& problem, Switching switches) {
  Solution solution{std::move(switches), {}};
  SegmentSimulator simulator(problem.layers, problem.fabric);
  solution.outcome = outcome_of(problem, simulator, solution.switches);
  return solution;
}

}  // namespace trimtab::tuner::h3t
