#pragma once

// A time that no plan of a space is faster than. Pure.

#include "plan_space.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

// The largest of: all operators' computing shared by all devices at each operator's best count of samples; the one
// operator that takes longest on as many replicas as it may have; one microbatch through every operator in turn.
// Communication and memory are left out. 0 when no operator is priced completely.
[[nodiscard]] double lower_bound_ms(const NativeCostModel& cost_model, const PlanSpace& space);

}  // namespace trimtab::tuner
