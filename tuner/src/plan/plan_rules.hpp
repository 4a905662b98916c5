#pragma once

// The list that validation fills, and how its messages name places in a plan.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner {

class Rules {
 public:
  void broken(std::string what) { broken_.push_back(std::move(what)); }
  [[nodiscard]] std::vector<std::string> take() { return std::move(broken_); }

 private:
  std::vector<std::string> broken_;
};

// Of `target_knobs`, those that are priced: facts of a target.
inline constexpr const char* kTransfersMeet = "transfers_meet";                // false (default) or true
inline constexpr const char* kParameterPrefetch = "parameter_prefetch";        // true (default) or false
inline constexpr const char* kGradientAccumulation = "gradient_accumulation";  // "sharded" (default) or "whole"
inline constexpr const char* kBucketBytes = "bucket_bytes";                    // of parameters; 1 or more
inline constexpr const char* kSequenceParallel = "sequence_parallel";          // false (default) or true
inline constexpr const char* kGatherAhead = "overlap_parameter_gather";        // false (default) or true

// What memory switches ask of a plan (validate_switches.cpp).
void check_switches(const Plan& plan, const Model& model, Rules& rules);

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

[[nodiscard]] std::string stage_text(std::size_t stage);                         // "stages[1]"
[[nodiscard]] std::string segment_text(std::size_t stage, std::size_t segment);  // "stages[1].segments[0]"
// "operator 3 (layer1-attention)", or the number alone where the model has no such operator.
[[nodiscard]] std::string operator_text(const Model& model, std::int32_t index);
[[nodiscard]] std::string list_text(const std::vector<std::int32_t>& values);  // "1, 2, 4"

}  // namespace trimtab::tuner
