#include "plan/canonical.hpp"

#include <algorithm>
#include <utility>

namespace trimtab::tuner {
namespace {

void canonicalize(Split& split) {
  if (split.dp == 1) split.sharded = ShardedLevel::kNone;
  if (split.sharded == ShardedLevel::kNone || split.sharded_degree == split.dp) split.sharded_degree = 0;
}

void join_segments(CandidateStage& stage) {
  if (stage.segments.empty()) return;
  std::vector<CandidateSegment> joined;
  for (const CandidateSegment& segment : stage.segments) {
    if (!joined.empty() && joined.back().split == segment.split) {
      joined.back().end = segment.end;
    } else {
      joined.push_back(segment);
    }
  }
  stage.split = joined.front().split;
  stage.segments = joined.size() > 1 ? std::move(joined) : std::vector<CandidateSegment>{};
}

bool has_second_choice(const Model& model, const CandidateStage& stage, std::int32_t op) {
  if (model.operators[op].shardings.size() < 2) return false;
  if (stage.segments.empty()) return stage.split.tp > 1;
  const auto inside = std::find_if(stage.segments.begin(), stage.segments.end(),
                                   [op](const CandidateSegment& segment) { return op < segment.end; });
  return inside != stage.segments.end() && inside->split.tp > 1;
}

void drop_idle_alternates(const Model& model, CandidateStage& stage) {
  if (stage.alternate.empty()) return;
  std::vector<Range> kept;
  for (const Range& range : stage.alternate) {
    for (std::int32_t op = range.begin; op < range.end; ++op) {
      if (has_second_choice(model, stage, op)) kept.push_back({op, op + 1});
    }
  }
  stage.alternate = normalized(std::move(kept));
}

bool is_plain(const CandidateStage& stage) {
  return stage.segments.empty() && stage.alternate.empty() && stage.split.sharded == ShardedLevel::kNone &&
         stage.split.sharded_degree == 0;
}

}  // namespace

void canonicalize(const Model& model, Candidate& candidate) {
  for (CandidateStage& stage : candidate.stages) {
    if (is_plain(stage)) continue;
    canonicalize(stage.split);
    for (CandidateSegment& segment : stage.segments) canonicalize(segment.split);
    join_segments(stage);
    drop_idle_alternates(model, stage);
  }
}

std::uint64_t semantic_hash_of(const Model& model, const Candidate& candidate) {
  if (std::all_of(candidate.stages.begin(), candidate.stages.end(), is_plain)) return hash_of(candidate);
  Candidate canonical = candidate;
  canonicalize(model, canonical);
  return hash_of(canonical);
}

}  // namespace trimtab::tuner
