#pragma once

// The price of one pipeline stage: its times per microbatch, its last microbatch with overlapped gradient
// synchronization, its memory. Pure functions over the tables.

#include <cstdint>
#include <vector>

#include "schema/plan.hpp"
#include "tables.hpp"
#include "tuner/calibration.hpp"

namespace trimtab::tuner {

// A stage of a plan that the native model prices: all its devices are data-parallel replicas.
struct StageShape {
  Range operators;
  std::int32_t samples = 1;  // per replica
  std::int32_t dp = 1;
  Placement placement = Placement::kIntraNode;
  std::int32_t in_flight = 1;
};

struct StageTimes {
  double forward = 0;
  double backward = 0;  // without recompute
  double recompute = 0;
  double last_backward = 0;  // recompute and slowdown by synchronization included
  double sync_end = 0;       // from the begin of the last backward; 0 without synchronization
  double optimizer = 0;

  [[nodiscard]] double backward_pass() const { return backward + recompute; }
  // From the begin of the last backward to the end of the stage's step.
  [[nodiscard]] double tail() const { return (last_backward > sync_end ? last_backward : sync_end) + optimizer; }
  // What gradient synchronization adds to a step.
  [[nodiscard]] double exposed_sync() const { return tail() - optimizer - backward_pass(); }
};

struct StageBytes {
  double states = 0;
  double activations = 0;
  double recompute_peak = 0;
  double working = 0;
  double process = 0;
  double gradient_buffer = 0;

  [[nodiscard]] double total() const {
    return states + activations + recompute_peak + working + process + gradient_buffer;
  }
};

// Which operators are recomputed: one byte each, indexed by operator.
using RecomputeFlags = std::vector<std::uint8_t>;

// REQUIRES for all: the tables know shape.samples and shape.dp. A missing cost counts as 0.
[[nodiscard]] StageTimes stage_times(const CostTable::Tables& tables, const Calibration& calibration,
                                     const StageShape& shape, const RecomputeFlags& recompute);
[[nodiscard]] StageBytes stage_bytes(const CostTable::Tables& tables, const Calibration& calibration,
                                     const StageShape& shape, const RecomputeFlags& recompute);

// Bytes that stay for one microbatch whatever is recomputed: the stage's own input.
[[nodiscard]] double input_bytes(const CostTable::Tables& tables, const StageShape& shape);
// Bytes of a recomputed operator's output, kept for one microbatch as the next operator's input: none for the model's
// last.
[[nodiscard]] double kept_output_bytes(const CostTable::Tables& tables, const StageShape& shape, std::int32_t i);

// Milliseconds of moving one microbatch's activations from the stage on `from` to the stage on `to`: the slowest
// rank's, whose transfers to several peers add up. The quality is the worst of the costs used.
[[nodiscard]] Value transfer_time(const CostTable::Tables& tables, const std::vector<std::int32_t>& from,
                                  const std::vector<std::int32_t>& to, double bytes_per_sample,
                                  std::int32_t microbatch);

}  // namespace trimtab::tuner
