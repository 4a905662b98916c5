#pragma once

// A time that no plan of a space is faster than, under the native model. Pure.

#include "native/step/native_evaluator.hpp"
#include "pricing/bounds.hpp"

namespace trimtab::tuner {

// The larger of two, never above `best_ms` (infinite where nothing is known to fit):
// - all operators' computing shared by all devices at each operator's best count of samples; the one operator that
//   takes longest on as many replicas as it may have; one microbatch through every operator in turn. 0 when no operator
//   is priced completely;
// - where the space is not too large, the least of a program over (stages, devices, operators) over all microbatches:
// the pipeline's filling and
//   draining, transfers, memory and the recompute that it forces, the optimizer, and, where a stage has one split,
//   gradient synchronization.
class NativeBounds final : public Bounds {
 public:
  // Both must outlive this.
  NativeBounds(const NativeCostModel& cost_model, NativeEvaluator& evaluator)
      : cost_model_(cost_model), evaluator_(evaluator) {}

  [[nodiscard]] double lower_bound_ms(const BoundRequest& request) override;
  // With the plans behind the second, those of the least floors first; every stage has a split.
  PlansNearBound plans_near_bound(const BoundRequest& request) override;

 private:
  const NativeCostModel& cost_model_;
  NativeEvaluator& evaluator_;
};

// The first of the two alone.
[[nodiscard]] double computing_bound_ms(const NativeCostModel& cost_model, const PlanSpace& space);

}  // namespace trimtab::tuner
