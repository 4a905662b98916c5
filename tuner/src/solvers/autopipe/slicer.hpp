#pragma once

// How many microbatches to slice (AutoPipe, section III-C, Algorithm 2). Pure.

#include <cstdint>
#include <vector>

#include "solvers/autopipe/recurrences.hpp"

namespace trimtab::tuner::autopipe {

// Most microbatches that may be sliced: later ones are in no stage's warm-up.
[[nodiscard]] inline std::int32_t most_sliced(const Pipeline& pipeline) {
  return std::min(pipeline.stages - 1, pipeline.microbatches);
}

struct SlicingGain {
  std::int32_t sliced = 0;  // the fewest microbatches of the fastest; 0 where slicing does not pay
  double plain = 0;         // the step's time without slicing
  double best = 0;          // and with `sliced`
};

// Exact: every number of sliced microbatches is simulated. `pipeline.sliced` is not looked at.
[[nodiscard]] SlicingGain best_slicing(Pipeline pipeline, PipelineTimes& scratch);

// Algorithm 2 as its text means it. As printed it takes half of two forwards that are whole, tests a blocking transfer
// before the value it needs exists, charges the hop out of stage 0 nothing and ends its loop on the reversed condition,
// so that it may never end. It looks at the slot of each stage's second steady forward alone: an estimate, less than
// 1.5 % from best_slicing() in tests. It takes halves to be as fast as wholes.
[[nodiscard]] std::int32_t algorithm_2(const Pipeline& pipeline);

// When the last stage gets its first input: the start-up overhead that slicing halves.
[[nodiscard]] double startup_overhead(const Pipeline& pipeline, bool sliced);

}  // namespace trimtab::tuner::autopipe
