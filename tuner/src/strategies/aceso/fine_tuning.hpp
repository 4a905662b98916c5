#pragma once

// Op-level fine-tuning (Aceso, section 4.2): other splits for runs of operators inside a stage, and other sharding
// dimensions operator by operator, kept where they make the plan better.

#include "search/strategy.hpp"

namespace trimtab::tuner {

// The given candidate where the space has neither mixed splits nor second dimensions, or nothing is better.
[[nodiscard]] Scored fine_tune(SearchRun& run, const Scored& from);

// The stage with `inside` split in another way; its other operators keep their splits.
void put_split(const Range& inside, const Split& split, std::int32_t begin, CandidateStage& stage);

}  // namespace trimtab::tuner
