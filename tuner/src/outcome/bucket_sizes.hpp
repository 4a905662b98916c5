#pragma once

// How many bytes of parameters each of a DDP job's reductions of gradients takes: few large ones pay their latency
// seldom, and the last of them has nothing left to go on beside. Plans that a search has found are priced with sizes a
// factor of two apart; trials decide. Pure.

#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

// Sizes for a rank's bytes of parameters beside the target's own, ascending; the last may be all in one.
[[nodiscard]] std::vector<std::int64_t> bucket_sizes(Bytes parameters, std::int64_t usual);

// Of plans that do not say a size, best first: each with the target's own; the first few also with the size that is
// priced best, the very first with the sizes beside that. Without those of the excluded hashes.
[[nodiscard]] std::vector<Plan> with_bucket_sizes(const CostModel& cost_model, const std::vector<Plan>& plans,
                                                  std::int64_t usual, const std::vector<std::string>& excluded);

}  // namespace trimtab::tuner
