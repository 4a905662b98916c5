#pragma once

// Steps that the user measured, which sharpen estimates of the same model on the same GPUs.

#include <string>

#include "estimated/asked.hpp"

namespace trimtab::cli {

// Of a file with a line of JSON for each: {"step_s": 7.1, "plan": {...}}, the plan as a question has it
// (docs/estimates.md). All on as many GPUs. Fails, naming the line, on what is malformed.
[[nodiscard]] Result<estimates::Correction> read_measured(const std::string& path, const Asked& asked);

}  // namespace trimtab::cli
