#pragma once

// The referee: every switching of a few layers, each simulated whole.

#include <algorithm>

#include "random_layers.hpp"

namespace trimtab::tuner::h3t::test {

struct Enumerated {
  Ticks best = 0;
  std::int64_t feasible = 0;
  Bytes least_peak = kUnlimited;  // within the host's limit
};

// Over `combinations` of switches for each layer.
template <typename Combinations>
Enumerated enumerate(const Problem& problem, const Combinations& combinations) {
  SegmentSimulator simulator(problem.layers, problem.fabric);
  Switching switches(problem.layers.size(), combinations[0]);
  std::vector<std::size_t> digits(problem.layers.size(), 0);
  Enumerated out;
  for (;;) {
    const StepOutcome outcome = outcome_of(problem, simulator, switches);
    if (outcome.host <= problem.host_limit) out.least_peak = std::min(out.least_peak, outcome.peak);
    if (problem.fits(outcome)) {
      out.best = out.feasible == 0 ? outcome.runtime : std::min(out.best, outcome.runtime);
      ++out.feasible;
    }
    std::size_t i = 0;
    for (; i < digits.size(); ++i) {
      digits[i] = (digits[i] + 1) % combinations.size();
      switches[i] = combinations[digits[i]];
      if (digits[i] != 0) break;
    }
    if (i == digits.size()) return out;
  }
}

}  // namespace trimtab::tuner::h3t::test
