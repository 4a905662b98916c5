#pragma once

// The list that validation fills, and how its messages name places in a plan.

#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner {

// What is broken, each as a line for people.
using Rules = std::vector<std::string>;

// Of `target_knobs`, those that are priced: facts of a target.
inline constexpr const char* kTransfersMeet = "transfers_meet";                // false (default) or true
inline constexpr const char* kParameterPrefetch = "parameter_prefetch";        // true (default) or false
inline constexpr const char* kGradientAccumulation = "gradient_accumulation";  // "sharded" (default) or "whole"
inline constexpr const char* kBucketBytes = "bucket_bytes";                    // of parameters; 1 or more
inline constexpr const char* kSequenceParallel = "sequence_parallel";          // false (default) or true
inline constexpr const char* kGatherAhead = "overlap_parameter_gather";        // false (default) or true

// Whether the plan's target says so: `json` is the value's text.
[[nodiscard]] bool target_says(const Plan& plan, const char* knob, std::string_view json);
// The plan's bucket_bytes; 0 where it has none, or no number above 0.
[[nodiscard]] std::int64_t bucket_bytes_of(const Plan& plan);
// Groups of devices that the stages go round: as many as stages but for the interleaved schedule.
[[nodiscard]] std::int32_t seats_of(const Plan& plan);
// Of a step, over all stages; a plan file may ask for any number.
[[nodiscard]] inline std::int64_t forwards_of(const Plan& plan) {
  return static_cast<std::int64_t>(plan.stages.size()) * plan.microbatches();
}

// visit(segment, stage, number of the segment in it), in order.
template <typename Visit>
void for_each_segment(const Plan& plan, Visit&& visit) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (std::size_t g = 0; g < plan.stages[s].segments.size(); ++g) visit(plan.stages[s].segments[g], s, g);
  }
}

[[nodiscard]] std::string stage_text(std::size_t stage);                         // "stages[1]"
[[nodiscard]] std::string segment_text(std::size_t stage, std::size_t segment);  // "stages[1].segments[0]"
// "operator 3 (layer1-attention)", or the number alone where the model has no such operator.
[[nodiscard]] std::string operator_text(const Model& model, std::int32_t index);
[[nodiscard]] std::string list_text(const std::vector<std::int32_t>& values);  // "1, 2, 4"

}  // namespace trimtab::tuner
