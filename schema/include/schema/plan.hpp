#pragma once

// The plan: what a job runs. Document: plan.json. Ranges are half-open. Plain values; `validate` against a model and a
// cluster is the tuner's (tuner/validate.hpp).

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/own_knobs.hpp"

namespace trimtab {

struct Range {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  [[nodiscard]] std::int32_t size() const { return end - begin; }
  [[nodiscard]] bool contains(std::int32_t index) const { return begin <= index && index < end; }
  auto operator<=>(const Range&) const = default;
};

enum class ShardedLevel : std::uint8_t { kNone, kOptimizer, kGradients, kParameters };
enum class ScheduleKind : std::uint8_t { k1F1B, kGPipe, kInterleaved };
enum class Transfers : std::uint8_t { kEager, kBlocking };

// H3T's memory switches: each a list of operator ranges.
struct Switches {
  std::vector<Range> offload_hidden;
  std::vector<Range> partition_parameters;
  std::vector<Range> lazy_prefetch;
  std::vector<Range> economical_forward;
  std::vector<Range> economical_backward;
  std::vector<Range> segment_sync;
  bool offload_optimizer = false;
  bool operator==(const Switches&) const = default;
};

struct Segment {
  Range operators;
  std::int32_t dp = 1;
  std::int32_t tp = 1;
  std::int32_t cp = 1;
  ShardedLevel sharded = ShardedLevel::kNone;
  std::int32_t sharded_degree = 0;  // 0 = dp
  bool tp_consecutive = true;
  std::vector<Range> recompute;  // sorted, disjoint, inside operators
  std::vector<Range> alternate_dimension;
  Switches switches;
  bool operator==(const Segment&) const = default;
};

struct Stage {
  std::vector<std::int32_t> devices;
  std::vector<Segment> segments;  // consecutive, at least one
  [[nodiscard]] Range operators() const { return {segments.front().operators.begin, segments.back().operators.end}; }
  bool operator==(const Stage&) const = default;
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::k1F1B;
  Transfers transfers = Transfers::kBlocking;
  std::int32_t sliced_microbatches = 0;
  std::int32_t sub_batches = 1;
  bool cross_pass = false;
  bool recompute_after_communication = false;
  bool operator==(const Schedule&) const = default;
};

struct Plan {
  std::string model;
  std::int32_t global_batch = 1;
  std::int32_t microbatch = 1;  // samples of one microbatch over all replicas of a stage
  Schedule schedule;
  std::vector<Stage> stages;                        // at least one
  std::map<std::string, std::string> target_knobs;  // key to its JSON text
  OwnSettings own;                                  // of the job's own knobs, where they are not as it is written

  [[nodiscard]] std::int32_t microbatches() const { return global_batch / microbatch; }
  bool operator==(const Plan&) const = default;
};

// Checks the shape alone: types, positive numbers, ordered ranges. The error names the JSON path after `source`.
[[nodiscard]] Result<Plan> parse_plan(std::string_view json, std::string_view source);
[[nodiscard]] std::string to_json(const Plan& plan);

// Equal for plans that mean the same (merged ranges, defaults written or not): 16 hex digits.
[[nodiscard]] std::string semantic_hash(const Plan& plan);

// The plan without its recompute ranges: equal for plans that differ in nothing but what they recompute.
[[nodiscard]] Plan layout_of(Plan plan);

// The same, and without where its stages and splits are cut: equal for plans that differ in how many operators each
// part has.
[[nodiscard]] Plan shape_of(Plan plan);

// Sorted, merged and without empty ranges.
[[nodiscard]] std::vector<Range> normalized(std::vector<Range> ranges);

}  // namespace trimtab
