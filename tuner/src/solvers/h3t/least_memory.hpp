#pragma once

// The synchronized switches with the lowest peak: whether anything fits at all. Exact but where the host's limit can be
// reached by many different layers: of more than 512 labels of a state an even choice goes on, so that the peak may be
// a little above the lowest.

#include "solvers/h3t/step_program.hpp"

namespace trimtab::tuner::h3t {

// Of switches whose hidden states fit on the host. Empty where the host is too small for what it must hold in any case.
[[nodiscard]] Switching least_memory(const StepProgram& program);

}  // namespace trimtab::tuner::h3t
