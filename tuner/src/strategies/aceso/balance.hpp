#pragma once

// Cuts for devices that are given: balanced by the stages' time, which starts alleviation and is its relay of operators
// through all stages at once; with splits that suit them; and by a goal.

#include <optional>
#include <span>

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

// Every stage gets the split with the best price, then cuts are balanced, in turn until nothing gets better. Never
// worse than the given candidate.
[[nodiscard]] Scored arranged(SearchRun& run, const Scored& from);

// Every stage in turn gets as many operators as a time and its memory allow (Aceso, section 4.1, with the goal
// tightened until it cannot be met). Knows recompute and communication, which balanced sums of computing do not. Never
// worse than the given candidate, which comes back where its splits are mixed.
[[nodiscard]] Scored filled(SearchRun& run, const Scored& from);

}  // namespace trimtab::tuner
