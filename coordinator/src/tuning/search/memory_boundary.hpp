#pragma once

// How much memory plans may be predicted to need once one has run out of it. What a model gets wrong is as often a
// constant (what the framework keeps) as a share, so plans that ran count, too: the boundary lies between the two.
// Pure.

#include <optional>

#include "base/units.hpp"

namespace trimtab::coordinator {

// Of one plan's fullest device.
struct MemoryNeed {
  Bytes predicted = 0;
  double peak = 0;  // measured; 0 = unknown
};

// Of `limit` (0 = unknown), after a plan that ran out of it: always less than that one was predicted to need. `ran`: of
// the plans that were predicted to need less and ran, the largest. Between the two the peak is taken to grow evenly;
// without such a plan in proportion. `scatter`: of peaks around their predictions, relative, as room: a plan at the
// very edge would run out every second time. REQUIRES: too_big.predicted > 1; ran is predicted to need less than that.
[[nodiscard]] Bytes allowed_memory(Bytes limit, const MemoryNeed& too_big, const std::optional<MemoryNeed>& ran,
                                   double scatter);

}  // namespace trimtab::coordinator
