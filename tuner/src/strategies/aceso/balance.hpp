#pragma once

// Cuts that balance the stages' time, for devices and splits that are given: a start for alleviation, and its relay of
// operators through all stages at once.

#include <optional>
#include <span>
#include <vector>

#include "search/strategy.hpp"

namespace trimtab::tuner {

struct Balanced {
  Candidate candidate;
  double busiest_ms = 0;  // of the busiest stage over a step: weight times computing
};

// The cuts that minimize the busiest stage's computing time (without recompute: no cut has less), each stage's times
// its weight where weights are given. `shape` has the microbatch, and devices and splits of the stages. Nothing where a
// needed cost is missing, there are too few cuts or a stage's splits are mixed.
[[nodiscard]] std::optional<Balanced> balance(Evaluator& evaluator, Candidate shape,
                                              std::span<const double> weights = {});

// The best of some rounds of balancing by what the stages really take, recompute and communication included. The given
// one where nothing is better.
[[nodiscard]] Scored rebalanced(SearchRun& run, const Scored& from);

}  // namespace trimtab::tuner
