#pragma once

// Which operators take longer than their costs say, learnt from what each stage of measured plans spent in its
// operators' passes:
//   pass time of a stage = e^(a + d) * sum over its operators o of e^(u_o) * priced passes of o
// with normal priors on a, the common factor, on d, what the machine was faster or slower while this plan ran, and on
// each u_o. The rows are taken in one after the other (an extended
// Kalman filter without a process, linear in the logarithm of the pass time), twice, so that the shares of operators in
// a stage are those of the result. Plans are left out one by one, and of the operators those are given a factor, the
// surest first, with which the passes of the plan that is left out are foretold best. Pure.

#include "tuner/calibration.hpp"
#include "tuner/cost_table.hpp"

namespace trimtab::tuner {

// Whether the plan's passes follow each other on devices of their own: no sub-batches, sliced microbatches, memory
// switches, or several stages on one device.
[[nodiscard]] bool is_simple_sum(const Plan& plan);

struct OperatorFactors {
  // The prior with its common factor of computation and operators' as the observations say.
  Calibration learnt;
  std::vector<Calibration> without;  // the same without the observation, by observation
};

// Nothing (`without` empty) where left out passes are foretold no better than by the prior. Plans whose passes are no
// simple sums teach nothing here. One plan alone teaches the common factor, which is not fitted to its step.
[[nodiscard]] OperatorFactors learn_operators(const CostTable& table, const std::vector<Observation>& observations,
                                              const Calibration& prior);

}  // namespace trimtab::tuner
