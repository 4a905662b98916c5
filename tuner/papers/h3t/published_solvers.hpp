#pragma once

// The three solvers of the paper (Wang et al., NeurIPS 2023, section 3.3.2 and appendix B) as their published code has
// them, for comparison, and what lies beyond synchronized answers. Each answers with a whole simulation of its
// switches, or with nothing where it finds none.

#include <cstdint>
#include <functional>
#include <optional>

#include "solvers/h3t/problem.hpp"

namespace trimtab::tuner::h3t {

// Algorithm 1: the best of `samples` uniform draws over all 96 combinations. (The published code returns the last one
// that fits: a flag is never set.)
[[nodiscard]] std::optional<Solution> solve_by_sampling(const Problem& problem, std::uint64_t seed,
                                                        std::int32_t samples = 1000,
                                                        const std::function<bool()>& stop = {});

// Algorithm 2: k times one combination, evenly among layers with all switches on. (The published code answers with all
// switches on where nothing faster fits, whether that fits or not; here it must fit.)
[[nodiscard]] std::optional<Solution> solve_greedily(const Problem& problem, const std::function<bool()>& stop = {});

// Algorithm 4: dynamic programming over prefixes with synchronization forced, its memory rounded up to a grid at every
// layer, 64 states that leave out rematerialization, and bounds for levels in front of backward segments. All of that
// is as published, mistakes and all, but it does not answer with all switches on where it finds nothing.
[[nodiscard]] std::optional<Solution> solve_by_published_program(const Problem& problem, std::int32_t grid = 128,
                                                                 const std::function<bool()>& stop = {});

// The same combination in every layer: what the paper calls manual.
[[nodiscard]] std::optional<Solution> best_uniform(const Problem& problem);

// Changes one layer at a time, synchronization and all other switches, for as long as a whole simulation gets faster
// and fits: a local optimum over the 96 combinations, never worse than `from`. Ends early when `stop` says so.
[[nodiscard]] Solution freed(const Problem& problem, Solution from, const std::function<bool()>& stop);

}  // namespace trimtab::tuner::h3t
