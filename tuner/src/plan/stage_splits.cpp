#include "plan/stage_splits.hpp"

#include <algorithm>

namespace trimtab::tuner {

void append_split(CandidateStage& stage, std::int32_t end, const Split& split) {
  if (stage.segments.empty() || !(stage.segments.back().split == split)) stage.segments.push_back({end, split});
  stage.segments.back().end = end;
}

void settle_splits(CandidateStage& stage) {
  stage.split = stage.segments.front().split;
  if (stage.segments.size() == 1) stage.segments.clear();
}

bool allowed_splits(const PlanSpace& space, const Model& model, std::int32_t microbatch, const CandidateStage& stage) {
  if (stage.segments.empty()) return space.allows(model, microbatch, stage.devices, stage.split);
  return std::all_of(stage.segments.begin(), stage.segments.end(), [&](const CandidateSegment& segment) {
    return space.allows(model, microbatch, stage.devices, segment.split);
  });
}

}  // namespace trimtab::tuner
