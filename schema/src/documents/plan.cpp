#include "schema/plan.hpp"

#include <algorithm>
#include <utility>

#include "documents/json_document.hpp"
#include "documents/plan_names.hpp"
#include "schema/hash64.hpp"

namespace trimtab {

namespace {

void append(std::vector<Range>& ranges, const std::vector<Range>& more) {
  ranges.insert(ranges.end(), more.begin(), more.end());
}

// Writes out every default and drops what has no effect, so that equal meanings become equal values.
Segment canonical_segment(Segment segment) {
  if (segment.sharded_degree == 0) segment.sharded_degree = segment.dp;
  if (segment.sharded_degree == 1) segment.sharded = ShardedLevel::kNone;
  if (segment.sharded == ShardedLevel::kNone) segment.sharded_degree = 0;
  // With one tensor-parallel rank there is nothing to split, and no order of ranks to choose; with one replica neither.
  if (segment.tp == 1) segment.alternate_dimension.clear();
  if (segment.tp == 1 || segment.dp * segment.cp == 1) segment.tp_consecutive = true;
  segment.recompute = normalized(std::move(segment.recompute));
  segment.alternate_dimension = normalized(std::move(segment.alternate_dimension));
  for (const auto& [name, ranges] : kSwitchRanges) segment.switches.*ranges = normalized(segment.switches.*ranges);
  return segment;
}

// Same settings, whatever the ranges of operators say.
bool same_settings(const Segment& a, const Segment& b) {
  return a.dp == b.dp && a.tp == b.tp && a.cp == b.cp && a.sharded == b.sharded &&
         a.sharded_degree == b.sharded_degree && a.tp_consecutive == b.tp_consecutive &&
         a.switches.offload_optimizer == b.switches.offload_optimizer;
}

void join(Segment& left, const Segment& right) {
  left.operators.end = right.operators.end;
  append(left.recompute, right.recompute);
  append(left.alternate_dimension, right.alternate_dimension);
  for (const auto& [name, ranges] : kSwitchRanges) append(left.switches.*ranges, right.switches.*ranges);
}

std::vector<Segment> canonical_segments(const std::vector<Segment>& segments) {
  std::vector<Segment> result;
  for (const Segment& segment : segments) {
    Segment next = canonical_segment(segment);
    if (!result.empty() && same_settings(result.back(), next)) {
      join(result.back(), next);
    } else {
      result.push_back(std::move(next));
    }
  }
  for (Segment& segment : result) segment = canonical_segment(std::move(segment));
  return result;
}

}  // namespace

std::vector<Range> normalized(std::vector<Range> ranges) {
  std::erase_if(ranges, [](const Range& range) { return range.size() <= 0; });
  std::sort(ranges.begin(), ranges.end());
  std::vector<Range> merged;
  for (const Range& range : ranges) {
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

std::string semantic_hash(const Plan& plan) {
  Plan canonical = plan;
  // Nothing is transferred inside one stage.
  if (canonical.stages.size() == 1) canonical.schedule.transfers = Transfers::kBlocking;
  for (Stage& stage : canonical.stages) stage.segments = canonical_segments(stage.segments);
  // to_json leaves defaults out in one fixed way; reading it into a sorted tree also sorts the target's knobs.
  return hash64_hex(dump(Json::parse(to_json(canonical))));
}

Plan layout_of(Plan plan) {
  for (Stage& stage : plan.stages) {
    for (Segment& segment : stage.segments) segment.recompute.clear();
  }
  return plan;
}

}  // namespace trimtab
