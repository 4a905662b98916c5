#pragma once

// Why a plan does not fit, in words: which stage, by how much, and the smallest change that would make it fit.

#include <string>

#include "native/step/priced_plan.hpp"

namespace trimtab::tuner {

// Index of the stage that is furthest over its limit, or -1 when all fit.
[[nodiscard]] std::int32_t worst_memory_stage(const PricedPlan& priced);
// Bytes of a stage over its limit; 0 when it fits.
[[nodiscard]] double excess_bytes(const PricedPlan& priced, std::size_t stage);

// REQUIRES: `stage` does not fit. `may_recompute` false = the job cannot.
[[nodiscard]] std::string describe_excess(const CostTable::Tables& tables, const Calibration& calibration,
                                          const Plan& plan, const PricedPlan& priced, std::int32_t stage,
                                          bool may_recompute = true);

}  // namespace trimtab::tuner
