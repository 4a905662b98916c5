#pragma once

// Which operators take longer than their costs say, learnt from what each stage of measured plans spent in its
// operators' passes:
//   pass time of a stage = e^(a + d) * sum over its operators o of e^(u_o) * priced passes of o
// with normal priors on a, the common factor, on d, what the machine was faster or slower while this plan ran, and on
// each u_o. The rows are taken in one after the other (an extended
// Kalman filter without a process, linear in the logarithm of the pass time), twice, so that the shares of operators in
// a stage are those of the result. Pure.

#include <vector>

#include "tuner/calibration.hpp"
#include "tuner/cost_table.hpp"

namespace trimtab::tuner {

// Whether the plan's passes follow each other on devices of their own: no sub-batches, sliced microbatches, memory
// switches, or several stages on one device.
[[nodiscard]] bool is_simple_sum(const Plan& plan);

// `prior` with its common factor of computation and its operators' as the observations say; unchanged where none has
// pass times. Plans whose passes are not simple sums teach nothing here.
[[nodiscard]] Calibration learn_operators(const CostTable& table, const std::vector<Observation>& observations,
                                          const Calibration& prior);

}  // namespace trimtab::tuner
