#pragma once

// What makes a candidate that was found better: single operators, all of its near relatives, what is recomputed.

#include "search/strategy.hpp"

namespace trimtab::tuner {

struct Reach {
  std::int32_t shift = 3;    // positions that one cut moves by at most
  bool pairs = true;         // two cuts at once, by one position each
  bool devices = true;       // every move of devices between two stages
  bool microbatches = true;  // every other microbatch
};

// Moves to the best relative until none is better. Every relative has been priced then.
[[nodiscard]] Scored descend(SearchRun& run, Scored from, const Reach& reach);

// Op-level fine-tuning (Aceso, section 4.2): other splits for runs of operators inside a stage, and other sharding
// dimensions operator by operator, kept where they make the plan better. The given candidate where the space has
// neither mixed splits nor second dimensions, or nothing is better.
[[nodiscard]] Scored fine_tune(SearchRun& run, const Scored& from);

// The stage with `inside` split in another way; its other operators keep their splits.
void put_split(const Range& inside, const Split& split, std::int32_t begin, CandidateStage& stage);

// Takes the run's best plans, and those that it refused as excluded, through every change of one operator and every
// exchange of two within a stage, cuts and devices kept. The choice for memory minimizes recompute time; when recompute
// happens matters too where gradients are synchronized beside it, and an excluded plan needs another set.
void polish_recompute(SearchRun& run);

}  // namespace trimtab::tuner
