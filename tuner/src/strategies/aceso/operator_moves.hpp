#pragma once

// Moves of operators between stages: to a neighbour, or to a distant stage by relay through those between (Aceso,
// section 4.3). Pure.

#include "strategies/aceso/primitives.hpp"

namespace trimtab::tuner {

// The candidate with all cuts between the two stages shifted so that `stage` gives `amount` allowed cut positions of
// operators towards `partner`; false where a stage would become empty.
[[nodiscard]] bool shift_operators(const PlanSpace& space, std::int32_t stage, std::int32_t partner,
                                   std::int32_t amount, Candidate& candidate);

// dec-op#: to the first of `partners` on either side and to both neighbours, in growing amounts.
void give_operators(const PlanSpace& space, const Candidate& from, const std::vector<std::int32_t>& partners,
                    std::int32_t stage, std::vector<Move>& moves);
// inc-op#: from either neighbour.
void take_operators(const PlanSpace& space, const Candidate& from, std::int32_t stage, std::vector<Move>& moves);

}  // namespace trimtab::tuner
