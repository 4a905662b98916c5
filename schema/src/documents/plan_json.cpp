#include "schema/plan.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "documents/json_reader.hpp"
#include "documents/plan_names.hpp"

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

Switches read_switches(const JsonReader& in, const Range& operators) {
  Switches switches;
  for (const auto& [name, ranges] : kSwitchRanges) switches.*ranges = read_ranges(in.at(name), operators);
  switches.offload_optimizer = in.at("offload_optimizer").flag_or(false);
  return switches;
}

Segment read_segment(const JsonReader& in) {
  Segment segment;
  segment.operators = read_range(in.at("operators"));
  if (segment.operators.size() == 0) in.at("operators").refuse("a segment needs at least one operator");
  segment.dp = in.at("dp").integer32_or(1, kPositive32);
  segment.tp = in.at("tp").integer32_or(1, kPositive32);
  segment.cp = in.at("cp").integer32_or(1, kPositive32);
  segment.sharded = static_cast<ShardedLevel>(in.at("sharded").choice_or(0, kShardedLevels));
  segment.sharded_degree = in.at("sharded_degree").integer32_or(0, kNonNegative32);
  segment.tp_consecutive = in.at("tp_consecutive").flag_or(true);
  segment.recompute = read_ranges(in.at("recompute"), segment.operators);
  segment.alternate_dimension = read_ranges(in.at("alternate_dimension"), segment.operators);
  segment.switches = read_switches(in.at("switches"), segment.operators);
  return segment;
}

Stage read_stage(const JsonReader& in) {
  Stage stage;
  in.at("devices").each_required([&](const JsonReader& item) {
    const std::int32_t device = item.integer32(kNonNegative32);
    if (std::find(stage.devices.begin(), stage.devices.end(), device) != stage.devices.end()) {
      item.refuse("device " + std::to_string(device) + " is named twice in this stage");
    }
    stage.devices.push_back(device);
  });
  in.at("segments").each_required([&](const JsonReader& item) {
    const Segment segment = read_segment(item);
    if (!stage.segments.empty() && stage.segments.back().operators.end != segment.operators.begin) {
      item.at("operators")
          .refuse("the segment before ends at operator " + std::to_string(stage.segments.back().operators.end) +
                  ", but this begins at " + std::to_string(segment.operators.begin) +
                  "; segments of a stage are consecutive");
    }
    stage.segments.push_back(segment);
  });
  return stage;
}

Schedule read_schedule(const JsonReader& in) {
  Schedule schedule;
  schedule.kind = static_cast<ScheduleKind>(in.at("kind").choice_or(0, kScheduleKinds));
  schedule.transfers = static_cast<Transfers>(in.at("transfers").choice_or(1, kTransfers));
  schedule.sliced_microbatches = in.at("sliced_microbatches").integer32_or(0, kNonNegative32);
  schedule.sub_batches = in.at("sub_batches").integer32_or(1, kPositive32);
  schedule.cross_pass = in.at("cross_pass").flag_or(false);
  schedule.recompute_after_communication = in.at("recompute_after_communication").flag_or(false);
  return schedule;
}

OrderedJson write_range(const Range& range) {
  return OrderedJson::array({range.begin, range.end});
}

void write_ranges(OrderedJson& json, std::string_view name, const std::vector<Range>& ranges) {
  for (const Range& range : ranges) json[std::string(name)].push_back(write_range(range));
}

OrderedJson write_segment(const Segment& segment) {
  OrderedJson json{{"operators", write_range(segment.operators)}, {"dp", segment.dp}, {"tp", segment.tp}};
  if (segment.cp != 1) json["cp"] = segment.cp;
  json["sharded"] = name_of(segment.sharded, kShardedLevels);
  if (segment.sharded_degree != 0) json["sharded_degree"] = segment.sharded_degree;
  if (!segment.tp_consecutive) json["tp_consecutive"] = false;
  write_ranges(json, "recompute", segment.recompute);
  write_ranges(json, "alternate_dimension", segment.alternate_dimension);
  for (const auto& [name, ranges] : kSwitchRanges) {
    if (!(segment.switches.*ranges).empty()) write_ranges(json["switches"], name, segment.switches.*ranges);
  }
  if (segment.switches.offload_optimizer) json["switches"]["offload_optimizer"] = true;
  return json;
}

OrderedJson write_schedule(const Schedule& schedule) {
  OrderedJson json{{"kind", name_of(schedule.kind, kScheduleKinds)},
                   {"transfers", name_of(schedule.transfers, kTransfers)}};
  if (schedule.sliced_microbatches != 0) json["sliced_microbatches"] = schedule.sliced_microbatches;
  if (schedule.sub_batches != 1) json["sub_batches"] = schedule.sub_batches;
  if (schedule.cross_pass) json["cross_pass"] = true;
  if (schedule.recompute_after_communication) json["recompute_after_communication"] = true;
  return json;
}

OrderedJson write_knob(const std::string& text) {
  OrderedJson value = OrderedJson::parse(text, nullptr, false);
  TRIMTAB_ASSERT(!value.is_discarded(), "a target knob's value must be JSON text");
  return value;
}

}  // namespace

Result<Plan> parse_plan(std::string_view json, std::string_view source) {
  TRIMTAB_TRY(JsonDocument document, JsonDocument::parse(json, source, kPlanSchema));
  const JsonReader root = document.root();
  Plan plan;
  plan.model = root.at("model").text();
  plan.global_batch = root.at("global_batch").integer32(kPositive32);
  plan.microbatch = root.at("microbatch").integer32(kPositive32);
  plan.schedule = read_schedule(root.at("schedule"));
  root.at("stages").each_required([&](const JsonReader& in) { plan.stages.push_back(read_stage(in)); });
  root.at("target_knobs").each_member([&](const std::string& name, const JsonReader& value) {
    plan.target_knobs[name] = dump(value.json());
  });
  TRIMTAB_TRY_STATUS(document.status());
  return plan;
}

std::string to_json(const Plan& plan) {
  OrderedJson json{{"schema", kPlanSchema},
                   {"model", plan.model},
                   {"global_batch", plan.global_batch},
                   {"microbatch", plan.microbatch},
                   {"schedule", write_schedule(plan.schedule)},
                   {"stages", OrderedJson::array()}};
  for (const Stage& stage : plan.stages) {
    OrderedJson out{{"devices", stage.devices}, {"segments", OrderedJson::array()}};
    for (const Segment& segment : stage.segments) out["segments"].push_back(write_segment(segment));
    json["stages"].push_back(std::move(out));
  }
  for (const auto& [name, text] : plan.target_knobs) json["target_knobs"][name] = write_knob(text);
  return dump(json);
}

}  // namespace trimtab
