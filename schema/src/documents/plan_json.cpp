
#include <algorithm>
#include <set>

#include "base/check.hpp"
#include "documents/members.hpp"
#include "documents/plan_names.hpp"
#include "schema/hash64.hpp"

namespace trimtab {

namespace {

Range read_range(const JsonReader& in) {
  constexpr const char* kExpected = "a range [begin, end) of operators";
  if (!in.is_tuple(2, kExpected)) return {};
  const Range range{in.element(0).integer32(kNonNegative32), in.element(1).integer32(kNonNegative32)};
  if (range.begin > range.end) in.refuse("a range must not end before it begins");
  return range;
}

std::vector<Range> read_ranges(const JsonReader& array, const Range& operators) {
  std::vector<Range> ranges;
  array.each([&](const JsonReader& in) {
    const Range range = read_range(in);
    if (range.begin < operators.begin || range.end > operators.end) {
      in.refuse("[" + std::to_string(range.begin) + ", " + std::to_string(range.end) +
                ") is not inside the segment's operators [" + std::to_string(operators.begin) + ", " +
                std::to_string(operators.end) + ")");
    }
    ranges.push_back(range);
  });
  return normalized(std::move(ranges));
}

OrderedJson write_knob(const std::string& text) {
  OrderedJson value = OrderedJson::parse(text, nullptr, false);
  TRIMTAB_ASSERT(!value.is_discarded(), "a target knob's value must be JSON text");
  return value;
}

template <typename M, typename Ranges>
void ranges_inside(M& m, std::string_view name, Ranges& ranges, const Range& operators) {
  if constexpr (M::kReads) {
    ranges = read_ranges(m.in.at(name), operators);
  } else {
    for (const Range& range : ranges) m.json[std::string(name)].push_back({range.begin, range.end});
  }
}

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

static void read_json(const JsonReader& in, Range& range) {
  range = read_range(in);
}

static OrderedJson write_json(const Range& range) {
  return OrderedJson::array({range.begin, range.end});
}

void members(auto& m, Of<Schedule> auto& schedule) {
  m.word("kind", schedule.kind, kScheduleKinds);
  m.word("transfers", schedule.transfers, kTransfers);
  m.unless(0, "sliced_microbatches", schedule.sliced_microbatches);
  m.unless(1, "sub_batches", schedule.sub_batches, kSamples);
  m.unless(false, "cross_pass", schedule.cross_pass);
  m.unless(false, "recompute_after_communication", schedule.recompute_after_communication);
}

template <typename M>
void members(M& m, Of<Segment> auto& segment) {
  m.needed("operators", segment.operators);
  if constexpr (M::kReads) {
    if (segment.operators.size() == 0) m.in.at("operators").refuse("a segment needs at least one operator");
  }
  m.always("dp", segment.dp, kPositive32);
  m.always("tp", segment.tp, kPositive32);
  m.unless(1, "cp", segment.cp, kPositive32);
  m.word("sharded", segment.sharded, kShardedLevels);
  m.unless(0, "sharded_degree", segment.sharded_degree);
  m.unless(true, "tp_consecutive", segment.tp_consecutive);
  ranges_inside(m, "recompute", segment.recompute, segment.operators);
  ranges_inside(m, "alternate_dimension", segment.alternate_dimension, segment.operators);
  m.inside("switches", [&](auto& switches) {
    for (const auto& [name, ranges] : kSwitchRanges) {
      ranges_inside(switches, name, segment.switches.*ranges, segment.operators);
    }
    switches.unless(false, "offload_optimizer", segment.switches.offload_optimizer);
  });
}

template <typename M>
void members(M& m, Of<Stage> auto& stage) {
  m.list("devices", stage.devices);
  m.list("segments", stage.segments);
  if constexpr (M::kReads) {
    std::set<std::int32_t> named;
    for (auto device = stage.devices.begin(); device != stage.devices.end(); ++device) {
      if (named.insert(*device).second) continue;
      m.in.at("devices")
          .element(static_cast<std::size_t>(device - stage.devices.begin()))
          .refuse("device " + std::to_string(*device) + " is named twice in this stage");
    }
    for (std::size_t i = 1; i < stage.segments.size(); ++i) {
      const std::int32_t end = stage.segments[i - 1].operators.end;
      const std::int32_t begin = stage.segments[i].operators.begin;
      if (begin == end) continue;
      m.in.at("segments")
          .element(i)
          .at("operators")
          .refuse("the segment before ends at operator " + std::to_string(end) + ", but this begins at " +
                  std::to_string(begin) + "; segments of a stage are consecutive");
    }
  }
}

template <typename M>
void members(M& m, Of<Plan> auto& plan) {
  m.needed("model", plan.model);
  m.needed("global_batch", plan.global_batch, kSamples);
  m.needed("microbatch", plan.microbatch, kSamples);
  m.always("schedule", plan.schedule);
  m.list("stages", plan.stages);
  if constexpr (M::kReads) {
    m.in.at("target_knobs").each_member([&](const std::string& name, const JsonReader& value) {
      plan.target_knobs[name] = dump(value.json());
    });
  } else {
    for (const auto& [name, text] : plan.target_knobs) m.json["target_knobs"][name] = write_knob(text);
  }
  m.unless({}, "own", plan.own);
  if constexpr (M::kReads) {
    m.in.at("own").each_member([&](const std::string& name, const JsonReader& value) {
      const Status known = check_own_setting(name, value.text());
      if (!known.ok()) value.refuse(known.error().message);
    });
  }
}

Result<Plan> parse_plan(std::string_view json, std::string_view source) {
  return parse_document<Plan>(json, source, kPlanSchema);
}

std::string to_json(const Plan& plan) {
  return written_document(plan, kPlanSchema);
}

std::vector<Range> normalized(std::vector<Range> ranges) {
  std::erase_if(ranges, [](const Range& range) { return range.size() <= 0; });
  std::ranges::sort(ranges);
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
  // As to_json(), which leaves defaults out in one fixed way, as a sorted tree: that sorts the target's knobs, too.
  return hash64_hex(dump(Json(written_json(canonical, kPlanSchema))));
}

Plan layout_of(Plan plan) {
  for (Stage& stage : plan.stages) {
    for (Segment& segment : stage.segments) segment.recompute.clear();
  }
  return plan;
}

Plan shape_of(Plan plan) {
  plan = layout_of(std::move(plan));
  for (Stage& stage : plan.stages) {
    for (Segment& segment : stage.segments) {
      segment.operators = {};
      segment.alternate_dimension.clear();
      segment.switches = {};
    }
    stage.segments.erase(std::unique(stage.segments.begin(), stage.segments.end()), stage.segments.end());
  }
  return plan;
}

}  // namespace trimtab
