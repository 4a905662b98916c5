#include "plans/plan_text.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "base/units.hpp"
#include "text_table.hpp"

namespace trimtab::cli {

namespace {

constexpr std::int32_t kDrawingColumns = 60;

std::int32_t total(const std::vector<Range>& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), 0,
                         [](std::int32_t sum, const Range& range) { return sum + range.size(); });
}

std::string devices_of(const Stage& stage) {
  std::string text;
  for (const std::int32_t device : stage.devices) text += (text.empty() ? "" : ",") + std::to_string(device);
  return text;
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
  for (const Segment& segment : stage.segments) {
    for (const Range& range : segment.recompute) {
      if (range.contains(index)) return true;
    }
  }
  return false;
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
  Bytes bytes = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  return error == std::errc{} && bytes > 0 ? "; buckets of " + format_bytes(bytes) : "";
}

std::string counted(std::int32_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

std::string describe(const Range& range) {
  return "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
}

std::string describe(const std::vector<Range>& ranges) {
  std::string text;
  for (const Range& range : ranges) text += (text.empty() ? "" : " ") + describe(range);
  return text.empty() ? "-" : text;
}

std::string_view describe(ShardedLevel level) {
  switch (level) {
    case ShardedLevel::kNone:
      return "none";
    case ShardedLevel::kOptimizer:
      return "optimizer";
    case ShardedLevel::kGradients:
      return "gradients";
    case ShardedLevel::kParameters:
      return "parameters";
  }
  return "unknown";
}

std::string_view describe(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::k1F1B:
      return "1f1b";
    case ScheduleKind::kGPipe:
      return "gpipe";
    case ScheduleKind::kInterleaved:
      return "interleaved";
  }
  return "unknown";
}

std::string_view describe(Transfers transfers) {
  return transfers == Transfers::kEager ? "eager" : "blocking";
}

std::string one_line(const Plan& plan) {
  std::string text = "microbatch " + std::to_string(plan.microbatch) + ";";
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    if (stage > 0) text += " |";
    const auto& segments = plan.stages[stage].segments;
    for (std::size_t i = 0; i < segments.size(); ++i) text += (i == 0 ? " " : " + ") + short_segment(segments[i]);
  }
  return text + buckets(plan);
}

std::string plan_table(const Plan& plan, const Model* model) {
  std::vector<Column> columns{{"stage", true}, {"devices"},  {"operators"}, {"dp", true},
                              {"tp", true},    {"cp", true}, {"sharded"},   {"recompute"}};
  if (model != nullptr) columns.push_back({"names"});
  TextTable table(std::move(columns));
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    for (const Segment& segment : plan.stages[stage].segments) {
      std::vector<std::string> row{std::to_string(stage),       devices_of(plan.stages[stage]),
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
  TextTable table({{"", true}, {""}, {""}, {""}});
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    table.add({"stage " + std::to_string(i), "|" + bar(stage, operators, columns) + "|",
               counted(stage.operators().size(), "operator"),
               (stage.devices.size() == 1 ? "on device " : "on devices ") + devices_of(stage)});
  }
  const std::string text = table.str(2);
  return text.substr(text.find('\n') + 1);  // the columns have no titles
}

namespace {

std::string sub_batches_text(const Schedule& schedule) {
  if (schedule.sub_batches < 2) return "";
  return ", " + std::to_string(schedule.sub_batches) + " sub-batches" + (schedule.cross_pass ? " across passes" : "") +
         (schedule.recompute_after_communication ? ", recompute after communication" : "");
}

}  // namespace

std::string describe(const Plan& plan, const Model* model) {
  const std::string microbatches =
      std::to_string(plan.microbatches()) + (plan.microbatches() == 1 ? " pass" : " passes");
  std::string text = "plan " + semantic_hash(plan) + " for the model " + plan.model + "\n";
  text += "  global batch " + std::to_string(plan.global_batch) + ", microbatch " + std::to_string(plan.microbatch) +
          " (" + microbatches + "), schedule " + std::string(describe(plan.schedule.kind)) + ", " +
          std::string(describe(plan.schedule.transfers)) + " transfers" + sub_batches_text(plan.schedule) + "\n\n";
  return text + plan_drawing(plan) + "  ('#' keeps activations, 'r' recomputes them)\n\n" + plan_table(plan, model);
}

}  // namespace trimtab::cli
