#include "plan/plan_rules.hpp"

#include <algorithm>
#include <charconv>

#include "tuner/validate.hpp"

namespace trimtab::tuner {

bool target_says(const Plan& plan, const char* knob, std::string_view json) {
  if (plan.target_knobs.empty()) return false;
  const auto found = plan.target_knobs.find(knob);
  return found != plan.target_knobs.end() && found->second == json;
}

bool shares_sequences(const Plan& plan) {
  const bool parallel = target_says(plan, kSequenceParallel, "true");
  return std::ranges::any_of(plan.stages, [parallel](const Stage& stage) {
    return std::ranges::any_of(stage.segments,
                               [parallel](const Segment& of) { return of.cp > 1 || (parallel && of.tp > 1); });
  });
}

std::int64_t bucket_bytes_of(const Plan& plan) {
  if (plan.target_knobs.empty()) return 0;
  const auto found = plan.target_knobs.find(kBucketBytes);
  if (found == plan.target_knobs.end()) return 0;
  std::int64_t bytes = 0;
  const char* const end = found->second.data() + found->second.size();
  const auto read = std::from_chars(found->second.data(), end, bytes);
  return read.ec == std::errc() && read.ptr == end ? std::max<std::int64_t>(bytes, 0) : 0;
}

std::int32_t seats_of(const Plan& plan) {
  const auto stages = static_cast<std::int32_t>(plan.stages.size());
  if (plan.schedule.kind != ScheduleKind::kInterleaved) return stages;
  std::int32_t seats = 1;
  while (seats < stages && plan.stages[seats].devices != plan.stages[0].devices) ++seats;
  return seats;
}

std::string stage_text(std::size_t stage) {
  return "stages[" + std::to_string(stage) + "]";
}

std::string segment_text(std::size_t stage, std::size_t segment) {
  return stage_text(stage) + ".segments[" + std::to_string(segment) + "]";
}

std::string operator_text(const Model& model, std::int32_t index) {
  const std::string number = "operator " + std::to_string(index);
  if (index < 0 || index >= static_cast<std::int32_t>(model.operators.size())) return number;
  return number + " (" + model.operators[index].name + ")";
}

std::string list_text(const std::vector<std::int32_t>& values) {
  std::string text;
  for (const std::int32_t value : values) {
    if (!text.empty()) text += ", ";
    text += std::to_string(value);
  }
  return text;
}

}  // namespace trimtab::tuner
