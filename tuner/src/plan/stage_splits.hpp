#pragma once

// The splits of a candidate's stage as they come about, operator by operator or layer by layer. Pure.

#include <cstdint>

#include "plan/candidate.hpp"

namespace trimtab::tuner {

// Operators up to `end` get this split, behind those that have one: neighbours of one split are one segment.
void append_split(CandidateStage& stage, std::int32_t end, const Split& split);
// Once all operators have theirs: the first is the stage's, and segments stay only where splits differ.
void settle_splits(CandidateStage& stage);
// Whether the space has all splits of the stage.
[[nodiscard]] bool allowed_splits(const PlanSpace& space, const Model& model, std::int32_t microbatch,
                                  const CandidateStage& stage);

}  // namespace trimtab::tuner
