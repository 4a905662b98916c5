#pragma once

// Which operators of a stage to recompute so that it fits its memory at the least recompute time. Pure.

#include <cstdint>
#include <vector>

#include "native/stage/recompute_patterns.hpp"
#include "native/stage/stage_cost.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner {

struct RecomputeChoice {
  bool fits = true;
  double excess_bytes = 0;       // over the limit; the least possible when it does not fit
  std::vector<Range> recompute;  // normalized
  double least_ms = 0;           // no choice that fits recomputes for less
};

// Minimum recompute time under `limit_bytes` (0 = unlimited): branch and bound over classes of equal units and the ways
// to recompute inside of one (recompute_patterns.hpp), exact unless it visits over 20,000 nodes or a unit has more ways
// than are looked at, then the best found; the first found is the greedy one by time per byte freed. `further`
// operators beyond that are recomputed too, cheapest by time per byte first. `allowed` false = none at all. `flags`:
// one for each of the model's operators; those of the stage are set to the choice. `known` keeps what units of these
// prices can do.
[[nodiscard]] RecomputeChoice choose_recompute(const Calibration& calibration, const StageInputs& inputs,
                                               double limit_bytes, bool allowed, std::int32_t further,
                                               RecomputeFlags& flags, KnownPatterns* known = nullptr);

}  // namespace trimtab::tuner
