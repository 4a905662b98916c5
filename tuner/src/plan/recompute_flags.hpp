#pragma once

// Sets of recomputed operators, one flag each beside ranges. Pure.

#include <algorithm>
#include "schema/plan.hpp"

namespace trimtab::tuner {

// Which operators are recomputed: one byte each, indexed by operator.
using RecomputeFlags = std::vector<std::uint8_t>;

// Sets `flags` for the ranges' operators and clears it for the others of `inside`.
void set_flags(const std::vector<Range>& ranges, const Range& inside, RecomputeFlags& flags);
[[nodiscard]] std::vector<Range> ranges_of(const RecomputeFlags& flags, const Range& inside);

// Whether one of the ranges has the operator.
[[nodiscard]] inline bool contains(const std::vector<Range>& ranges, std::int32_t op) {
  return std::ranges::any_of(ranges, [op](const Range& range) { return range.contains(op); });
}

}  // namespace trimtab::tuner
