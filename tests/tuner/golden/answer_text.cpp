#include "answer_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <regex>
#include <vector>

#include "schema/hash64.hpp"

namespace trimtab::tuner::golden {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kPlans = 3;
// Of numbers in ms: less than a picosecond is what rounding leaves of a difference, another on every compiler.
constexpr double kNoise = 1e-9;

std::string range_text(const Range& range) {
  return std::to_string(range.begin) + "-" + std::to_string(range.end);
}

std::string ranges_text(const char* name, const std::vector<Range>& ranges) {
  if (ranges.empty()) return "";
  std::string text = std::string(" ") + name;
  for (const Range& range : ranges) text += " " + range_text(range);
  return text;
}

std::string switches_text(const Switches& switches) {
  return ranges_text("offload_hidden", switches.offload_hidden) +
         ranges_text("partition_parameters", switches.partition_parameters) +
         ranges_text("lazy_prefetch", switches.lazy_prefetch) +
         ranges_text("economical_forward", switches.economical_forward) +
         ranges_text("economical_backward", switches.economical_backward) +
         ranges_text("segment_sync", switches.segment_sync) + (switches.offload_optimizer ? " offload_optimizer" : "");
}

std::string segment_text(const Segment& segment) {
  constexpr const char* kLevels[] = {"none", "optimizer", "gradients", "parameters"};
  std::string text = range_text(segment.operators) + " dp " + std::to_string(segment.dp);
  if (segment.tp > 1) text += " tp " + std::to_string(segment.tp) + (segment.tp_consecutive ? "" : " strided");
  if (segment.cp > 1) text += " cp " + std::to_string(segment.cp);
  if (segment.sharded != ShardedLevel::kNone) {
    text += std::string(" sharded ") + kLevels[static_cast<std::size_t>(segment.sharded)];
    if (segment.sharded_degree > 0) text += " by " + std::to_string(segment.sharded_degree);
  }
  return text + ranges_text("recompute", segment.recompute) + ranges_text("alternate", segment.alternate_dimension) +
         switches_text(segment.switches);
}

std::string schedule_text(const Schedule& schedule) {
  constexpr const char* kKinds[] = {"1f1b", "gpipe", "interleaved"};
  std::string text = kKinds[static_cast<std::size_t>(schedule.kind)];
  if (schedule.transfers == Transfers::kEager) text += " eager";
  if (schedule.sliced_microbatches > 0) text += " sliced " + std::to_string(schedule.sliced_microbatches);
  if (schedule.sub_batches > 1) text += " sub_batches " + std::to_string(schedule.sub_batches);
  if (schedule.cross_pass) text += " cross_pass";
  if (schedule.recompute_after_communication) text += " recompute_after_communication";
  return text;
}

std::string devices_text(const std::vector<std::int32_t>& devices) {
  std::string text;
  for (const std::int32_t device : devices) text += (text.empty() ? "" : ",") + std::to_string(device);
  return text;
}

std::string ranked_text(const RankedPlan& ranked) {
  const Prediction& of = ranked.prediction;
  std::string text = semantic_hash(ranked.plan) + " json " + hash64_hex(to_json(ranked.plan)) + ": " +
                     number(of.iteration_ms) + " ms (" + number(of.interval_low_ms) + " to " +
                     number(of.interval_high_ms) + "), memory";
  for (const StagePrediction& stage : of.stages) text += " " + std::to_string(stage.memory_bytes);
  text += ", bottleneck stage " + std::to_string(of.bottleneck.stage) + " " + of.bottleneck.resource;
  if (!of.missing_costs.empty()) text += ", " + std::to_string(of.missing_costs.size()) + " costs missing";
  if (!of.estimated_costs.empty()) text += ", " + std::to_string(of.estimated_costs.size()) + " costs estimated";
  return text + "\n   " + plan_line(ranked.plan) + "\n";
}

std::string bound_text(const SearchResult& result) {
  std::string text = "bound " + number(result.lower_bound_ms) + " ms";
  if (!result.plans.empty() && result.plans.front().prediction.iteration_ms > 0) {
    const double gap = 1 - result.lower_bound_ms / result.plans.front().prediction.iteration_ms;
    char percent[32];
    std::snprintf(percent, sizeof percent, "%.4f", 100 * std::max(0.0, gap));
    text += std::string(", gap ") + percent + " %";
  }
  return text + (result.proven ? ", proven" : ", not proven");
}

// Numbers by number(), keys in the order of the alphabet.
std::string inline_text(const Json& value) {
  if (value.is_number_float()) return number(value.get<double>());
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, item] : value.items()) {
    text += text.empty() ? "" : ", ";
    if (value.is_object()) text += key + " ";
    text += inline_text(item);
  }
  return (value.is_object() ? "{" : "[") + text + (value.is_object() ? "}" : "]");
}

// The first names of a list, and a hash of all of it.
std::string names_text(const std::string& key, const Json& names) {
  constexpr std::size_t kShown = 2;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) text += key + ": " + inline_text(names[i]) + "\n";
  if (names.size() <= kShown) return text;
  return text + key + ": " + std::to_string(names.size()) + " in all, hash " + hash64_hex(names.dump()) + "\n";
}

// A line for each key, and for each stage. Empty lists say nothing.
std::string document_text(const Json& document) {
  std::string text;
  for (const auto& [key, value] : document.items()) {
    if (value.is_array() && (value.empty() || value[0].is_string())) {
      text += names_text(key, value);
    } else if (value.is_array() && value[0].is_object()) {
      for (const Json& item : value) text += key + ": " + inline_text(item) + "\n";
    } else {
      text += key + ": " + inline_text(value) + "\n";
    }
  }
  return text;
}

}  // namespace

std::string number(double value) {
  if (std::abs(value) < kNoise) return "0";
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string plan_line(const Plan& plan) {
  std::string text = "batch " + std::to_string(plan.global_batch) + " by " + std::to_string(plan.microbatch) + ", " +
                     schedule_text(plan.schedule);
  for (const Stage& stage : plan.stages) {
    text += " | on " + devices_text(stage.devices) + ":";
    for (const Segment& segment : stage.segments) text += " [" + segment_text(segment) + "]";
  }
  for (const auto& [key, value] : plan.target_knobs) text += ", " + key + " " + value;
  return text;
}

std::string outcome_text(const SearchOutcome& outcome) {
  const SearchResult& result = outcome.result;
  std::string text = std::to_string(result.plans.size()) + " plans, " + std::to_string(result.evaluations) +
                     " evaluations, " + result.stopped + ", " + bound_text(result) + ", " +
                     std::to_string(outcome.trace.size()) + " steps\n";
  for (std::size_t i = 0; i < std::min(kPlans, result.plans.size()); ++i) {
    text += std::to_string(i + 1) + ". " + ranked_text(result.plans[i]);
  }
  if (!outcome.infeasible.empty()) text += outcome.infeasible + "\n";
  return text;
}

std::string explained_text(const SearchOutcome& outcome, const Model& model) {
  static const std::regex kSmall("-?[0-9.]+e-[0-9]+");
  return std::regex_replace(explain(outcome, model), kSmall, "0") + "\n";
}

std::string prediction_text(const CostModel& model, const Plan& plan) {
  std::string text = "plan: " + semantic_hash(plan) + " " + plan_line(plan) + "\n";
  const std::vector<std::string> unpriced = model.unpriced(plan);
  for (const std::string& name : unpriced) text += "unpriced: " + name + "\n";
  if (!unpriced.empty()) return text;
  const Prediction prediction = model.evaluate(plan);
  text += document_text(Json::parse(to_json(prediction)));
  if (!prediction.priced()) return text;
  double end = 0;
  const std::vector<TimelineEvent> events = model.timeline(plan);
  for (const TimelineEvent& event : events) end = std::max(end, event.end_ms);
  return text + "timeline: " + std::to_string(events.size()) + " events to " + number(end) + " ms\n";
}

}  // namespace trimtab::tuner::golden
