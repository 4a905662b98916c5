#pragma once

// What costs of operators are called whose ranks share sequences: the `sharding` of their keys. Pure.

#include "schema/plan.hpp"

namespace trimtab {

// Of operators whose sequence `cp` context-parallel ranks share, its tensor-parallel ranks too where `sequence` says
// so. REQUIRES: cp > 1 or sequence.
[[nodiscard]] std::string sharing_name(std::int32_t cp, bool sequence);
// Of the segment's operators as the plan runs them; empty where each rank has whole sequences.
[[nodiscard]] std::string sharing_of(const Plan& plan, const Segment& segment);
// Whether costs of this `sharding` are of such operators.
[[nodiscard]] bool is_sharing_name(std::string_view sharding);

}  // namespace trimtab
