#pragma once

// The fastest synchronized step that fits, exactly: labels on whole bytes over the 16 states of a boundary, without
// dominated ones and without those that a relaxation proves to be no faster than what is known. Passes with more and
// more labels; one that had to drop none is a proof, and what a pass has dropped bounds what it may have missed.

#include <functional>

#include "solvers/h3t/problem.hpp"

namespace trimtab::tuner::h3t {

struct ExactOptions {
  std::function<bool()> stop;            // asked often; true ends with the best so far
  std::size_t most_labels = 24'000'000;  // over all boundaries of a pass: what its memory allows
  double gap = 0;                        // ends once proven to be this near, as a share of the time
};

// One pass, for traces: what was known behind it.
struct ExactPass {
  std::size_t width = 0;   // labels kept at a boundary; 0: of the relaxation alone
  std::size_t labels = 0;  // that it extended
  Ticks best = 0;
  Ticks bound = 0;
};

struct ExactAnswer {
  bool feasible = false;
  Solution best;        // with the least memory where nothing fits
  Ticks bound = 0;      // no synchronized step that fits takes less
  bool proven = false;  // best takes just that
  std::vector<ExactPass> passes;
  std::size_t paths = 0;   // of its relaxation
  std::size_t labels = 0;  // of all passes, that were extended

  [[nodiscard]] double gap() const {
    const auto ticks = static_cast<double>(best.outcome.runtime);
    return ticks > 0 ? (ticks - static_cast<double>(bound)) / ticks : 0;
  }
};

// `seen` is called with every better answer and bound. REQUIRES: layers that can be.
[[nodiscard]] ExactAnswer solve_exactly(const Problem& problem, const ExactOptions& options = {},
                                        const std::function<void(const ExactPass&)>& seen = {});

}  // namespace trimtab::tuner::h3t
