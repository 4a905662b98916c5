#pragma once

// One stage by the published arithmetic, operator by operator: any split of each operator, recompute given or derived.
// The plain form of what uniform_stage.hpp computes from prefix sums.

#include <cstdint>
#include <span>
#include <vector>

#include "papers/aceso/tables.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner::aceso {

struct OperatorSplit {
  std::int32_t setting = -1;  // of the tables; -1 = not measured
  std::int32_t dp = 1, tp = 1;
  bool alternate = false;
};

// The stage's place in the pipeline. `copies` is how many microbatches' activations it holds: stages from it to the
// end.
struct Place {
  std::int32_t copies = 1;
  bool inter_node_input = false, inter_node_output = false;
};

struct StageParts {
  double forward = 0, backward = 0, recompute = 0;      // us of one microbatch
  double in = 0, out = 0;                               // us, layout changes of that direction included
  double reshard = 0;                                   // the part of in + out that is layout changes
  double weight = 0;                                    // MiB, one copy
  double kept = 0;                                      // MiB of one microbatch that waits for its backward
  double recompute_peak = 0, reserved = 0, memory = 0;  // MiB

  [[nodiscard]] double time() const { return forward + backward + recompute + in + out; }  // us
};

// us that the layout change from the operator before `op` to `op` takes: forward and backward.
struct ReshardTime {
  double forward = 0, backward = 0;
};
[[nodiscard]] ReshardTime reshard_time(const Tables& tables, std::int32_t op, const OperatorSplit& before,
                                       const OperatorSplit& split);

// `splits` by operator from `begin` on; `recompute` likewise, nonzero for a recomputed operator.
[[nodiscard]] StageParts stage_parts(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits,
                                     std::span<const std::uint8_t> recompute, const Place& place);

// Sets the flags of the ranges' operators. `flags` are of a stage that begins with operator `begin`.
void mark(const std::vector<Range>& ranges, std::int32_t begin, std::vector<std::uint8_t>& flags);

}  // namespace trimtab::tuner::aceso
