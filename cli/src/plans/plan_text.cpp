#include "plans/plan_text.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "arguments.hpp"
#include "base/units.hpp"
#include "schema/job_without_plan.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

constexpr std::int32_t kDrawingColumns = 60;

std::int32_t total(const std::vector<Range>& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), 0,
                         [](std::int32_t sum, const Range& range) { return sum + range.size(); });
}

std::string sharding(const Segment& segment) {
  if (segment.sharded == ShardedLevel::kNone) return "none";
  const std::int32_t degree = segment.sharded_degree == 0 ? segment.dp : segment.sharded_degree;
  return std::string(describe(segment.sharded)) + "/" + std::to_string(degree);
}

std::string degrees(const Segment& segment) {
  std::string text = "dp" + std::to_string(segment.dp);
  if (segment.tp > 1) text += " tp" + std::to_string(segment.tp);
  if (segment.cp > 1) text += " cp" + std::to_string(segment.cp);
  return text;
}

std::string short_segment(const Segment& segment) {
  std::string text = describe(segment.operators) + " " + degrees(segment);
  if (segment.sharded != ShardedLevel::kNone) text += " " + sharding(segment);
  const std::int32_t recomputed = total(normalized(segment.recompute));
  if (recomputed > 0) {
    text += recomputed == segment.operators.size() ? " rc all" : " rc" + std::to_string(recomputed);
  }
  return text;
}

std::string operator_names(const Range& range, const Model& model) {
  const auto last = static_cast<std::size_t>(range.end) - 1;
  if (last >= model.operators.size()) return "not in the model";
  const std::string& first = model.operators[static_cast<std::size_t>(range.begin)].name;
  return range.size() == 1 ? first : first + " .. " + model.operators[last].name;
}

bool recomputes(const Stage& stage, std::int32_t index) {
  return std::ranges::any_of(stage.segments, [&](const Segment& segment) {
    return std::ranges::any_of(segment.recompute, [&](const Range& range) { return range.contains(index); });
  });
}

std::string bar(const Stage& stage, std::int32_t operators, std::int32_t columns) {
  std::string text;
  for (std::int32_t column = 0; column < columns; ++column) {
    const auto index = static_cast<std::int32_t>(std::int64_t{column} * operators / columns);
    text += !stage.operators().contains(index) ? '.' : recomputes(stage, index) ? 'r' : '#';
  }
  return text;
}

// "; buckets of 50 MiB", where the plan says a size.
std::string buckets(const Plan& plan) {
  const auto found = plan.target_knobs.find("bucket_bytes");
  if (found == plan.target_knobs.end()) return "";
  const Bytes bytes = parse_number<Bytes>(found->second).value_or(0);
  return bytes > 0 ? "; buckets of " + format_bytes(bytes) : "";
}

std::string counted(std::int32_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string sub_batches_text(const Schedule& schedule) {
  if (schedule.sub_batches < 2) return "";
  return ", " + std::to_string(schedule.sub_batches) + " sub-batches" + (schedule.cross_pass ? " across passes" : "") +
         (schedule.recompute_after_communication ? ", recompute after communication" : "");
}

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string yes_no(bool value) {
  return value ? "yes" : "no";
}

void add_switches(Fields& fields, const std::string& path, const Switches& switches) {
  const auto add = [&](const char* name, const std::vector<Range>& ranges) {
    fields.emplace_back(path + name, describe(normalized(ranges)));
  };
  add("offload_hidden", switches.offload_hidden);
  add("partition_parameters", switches.partition_parameters);
  add("lazy_prefetch", switches.lazy_prefetch);
  add("economical_forward", switches.economical_forward);
  add("economical_backward", switches.economical_backward);
  add("segment_sync", switches.segment_sync);
  fields.emplace_back(path + "offload_optimizer", yes_no(switches.offload_optimizer));
}

void add_segment(Fields& fields, const std::string& path, const Segment& segment) {
  const bool sharded = segment.sharded != ShardedLevel::kNone;
  const std::int32_t degree = segment.sharded_degree == 0 ? segment.dp : segment.sharded_degree;
  fields.emplace_back(path + "operators", describe(segment.operators));
  fields.emplace_back(path + "dp", std::to_string(segment.dp));
  fields.emplace_back(path + "tp", std::to_string(segment.tp));
  fields.emplace_back(path + "cp", std::to_string(segment.cp));
  fields.emplace_back(path + "sharded", std::string(describe(segment.sharded)));
  fields.emplace_back(path + "sharded_degree", sharded ? std::to_string(degree) : "-");
  // The order of tensor-parallel ranks means nothing without tensor parallelism.
  fields.emplace_back(path + "tp_consecutive", segment.tp > 1 ? yes_no(segment.tp_consecutive) : "-");
  fields.emplace_back(path + "recompute", describe(normalized(segment.recompute)));
  fields.emplace_back(path + "alternate_dimension", describe(normalized(segment.alternate_dimension)));
  add_switches(fields, path + "switches.", segment.switches);
}

void add_stage(Fields& fields, const std::string& path, const Stage& stage) {
  fields.emplace_back(path + "devices", devices_of(stage, ","));
  for (std::size_t i = 0; i < stage.segments.size(); ++i) {
    add_segment(fields, path + "segments[" + std::to_string(i) + "].", stage.segments[i]);
  }
}

// Every field of a plan with its meaning as text, in document order.
Fields fields_of(const Plan& plan) {
  Fields fields{{"model", plan.model},
                {"global_batch", std::to_string(plan.global_batch)},
                {"microbatch", std::to_string(plan.microbatch)},
                {"schedule.kind", std::string(describe(plan.schedule.kind))},
                {"schedule.transfers", std::string(describe(plan.schedule.transfers))},
                {"schedule.sliced_microbatches", std::to_string(plan.schedule.sliced_microbatches)},
                {"schedule.sub_batches", std::to_string(plan.schedule.sub_batches)},
                {"schedule.cross_pass", yes_no(plan.schedule.cross_pass)},
                {"schedule.recompute_after_communication", yes_no(plan.schedule.recompute_after_communication)},
                {"stages", std::to_string(plan.stages.size())}};
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    add_stage(fields, "stages[" + std::to_string(i) + "].", plan.stages[i]);
  }
  for (const auto& [knob, json] : plan.target_knobs) fields.emplace_back("target_knobs." + knob, json);
  for (const auto& [key, value] : plan.own) fields.emplace_back("own." + key, value);
  return fields;
}

std::string value_in(const Fields& fields, const std::string& field) {
  const auto found = std::ranges::find(fields, field, &Fields::value_type::first);
  return found == fields.end() ? "-" : found->second;
}

}  // namespace

std::string describe(const Range& range) {
  return "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
}

std::string describe(const std::vector<Range>& ranges) {
  return ranges.empty() ? "-" : joined(ranges, " ", [](const Range& range) { return describe(range); });
}

std::string_view describe(ShardedLevel level) {
  constexpr std::array<std::string_view, 4> kNames{"none", "optimizer", "gradients", "parameters"};
  return kNames.at(static_cast<std::size_t>(level));
}

std::string_view describe(ScheduleKind kind) {
  constexpr std::array<std::string_view, 3> kNames{"1f1b", "gpipe", "interleaved"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string_view describe(Transfers transfers) {
  return transfers == Transfers::kEager ? "eager" : "blocking";
}

std::string devices_of(const Stage& stage, std::string_view between) {
  return joined(stage.devices, between, [](std::int32_t device) { return std::to_string(device); });
}

std::string one_line(const Plan& plan) {
  if (is_as_launched(plan)) return plan.own.empty() ? "as launched" : own_words(plan.own);
  std::string text = "microbatch " + std::to_string(plan.microbatch) + ";";
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    if (stage > 0) text += " |";
    const auto& segments = plan.stages[stage].segments;
    for (std::size_t i = 0; i < segments.size(); ++i) text += (i == 0 ? " " : " + ") + short_segment(segments[i]);
  }
  return text + buckets(plan) + (plan.own.empty() ? "" : "; " + own_words(plan.own));
}

std::string named_plan(const Plan& plan, const std::string& words) {
  if (words.empty() || is_as_launched(plan)) return one_line(plan);
  return words + " (" + one_line(plan) + ")";
}

std::string plan_table(const Plan& plan, const Model* model) {
  std::vector<Column> columns{">stage", "devices", "operators", ">dp", ">tp", ">cp", "sharded", "recompute"};
  if (model != nullptr) columns.emplace_back("names");
  TextTable table(std::move(columns));
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    for (const Segment& segment : plan.stages[stage].segments) {
      std::vector<std::string> row{std::to_string(stage),       devices_of(plan.stages[stage], ","),
                                   describe(segment.operators), std::to_string(segment.dp),
                                   std::to_string(segment.tp),  std::to_string(segment.cp),
                                   sharding(segment),           describe(normalized(segment.recompute))};
      if (model != nullptr) row.push_back(operator_names(segment.operators, *model));
      table.add(std::move(row));
    }
  }
  return table.str(2);
}

std::string plan_drawing(const Plan& plan) {
  std::int32_t operators = 0;
  for (const Stage& stage : plan.stages) operators = std::max(operators, stage.operators().end);
  if (operators == 0) return "";
  // At least one column for each operator as long as they fit, else a sample of them.
  const std::int32_t columns =
      operators <= kDrawingColumns ? operators * (kDrawingColumns / operators) : kDrawingColumns;
  TextTable table({">", "", "", ""});
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    table.add({"stage " + std::to_string(i), "|" + bar(stage, operators, columns) + "|",
               counted(stage.operators().size(), "operator"),
               (stage.devices.size() == 1 ? "on device " : "on devices ") + devices_of(stage, ",")});
  }
  const std::string text = table.str(2);
  return text.substr(text.find('\n') + 1);  // the columns have no titles
}

std::string describe(const Plan& plan, const Model* model) {
  const std::string microbatches =
      std::to_string(plan.microbatches()) + (plan.microbatches() == 1 ? " pass" : " passes");
  std::string text = "plan " + semantic_hash(plan) + " for the model " + printable(plan.model) + "\n";
  text += "  global batch " + std::to_string(plan.global_batch) + ", microbatch " + std::to_string(plan.microbatch) +
          " (" + microbatches + "), schedule " + std::string(describe(plan.schedule.kind)) + ", " +
          std::string(describe(plan.schedule.transfers)) + " transfers" + sub_batches_text(plan.schedule) + "\n" +
          (plan.own.empty() ? "" : "  own settings: " + printable(own_words(plan.own)) + "\n") + "\n";
  return text + plan_drawing(plan) + "  ('#' keeps activations, 'r' recomputes them)\n\n" + plan_table(plan, model);
}

std::vector<PlanChange> differences(const Plan& before, const Plan& after) {
  const Fields old_fields = fields_of(before);
  const Fields new_fields = fields_of(after);
  std::vector<PlanChange> changes;
  for (const auto& [field, value] : old_fields) {
    const std::string now = value_in(new_fields, field);
    if (now != value) changes.push_back({field, value, now});
  }
  for (const auto& [field, value] : new_fields) {
    const bool known = std::ranges::find(old_fields, field, &Fields::value_type::first) != old_fields.end();
    if (!known && value != "-") changes.push_back({field, "-", value});
  }
  return changes;
}

}  // namespace trimtab::cli
