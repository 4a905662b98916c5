#pragma once

// The critical path of a native step for pictures: the longest path that runs closest to the last stage (AutoPipe,
// section III-B). Pure.

#include "native/step/recorded_step.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

[[nodiscard]] StepPath step_path(const PricedPlan& priced, const RecordedStep& step);

}  // namespace trimtab::tuner
