#pragma once

// The synchronized switches with the lowest peak, exactly: whether anything fits at all.

#include "step_program.hpp"

namespace trimtab::tuner::h3t {

// Of switches whose hidden states fit on the host. Empty where the host is too small for what it must hold in any case.
[[nodiscard]] Switching least_memory(const StepProgram& program);

}  // namespace trimtab::tuner::h3t
