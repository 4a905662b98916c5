#pragma once

// Sets of recomputed operators, one flag each beside ranges. Pure.

#include <cstdint>
#include <vector>

#include "schema/plan.hpp"

namespace trimtab::tuner {

// Which operators are recomputed: one byte each, indexed by operator.
using RecomputeFlags = std::vector<std::uint8_t>;

// Sets `flags` for the ranges' operators and clears it for the others of `inside`.
void set_flags(const std::vector<Range>& ranges, const Range& inside, RecomputeFlags& flags);
[[nodiscard]] std::vector<Range> ranges_of(const RecomputeFlags& flags, const Range& inside);

}  // namespace trimtab::tuner
