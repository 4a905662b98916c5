#pragma once

// What a change of plan took, for people. Pure.

#include <string>

#include "schema/api/trial.hpp"

namespace trimtab::cli {

// Whether any part of it was told.
[[nodiscard]] bool is_told(const api::SwitchPhases& phases);
// "214.5 ms, of which the snapshot 90 ms, moving state 40 ms"
[[nodiscard]] std::string change_text(double switch_ms, const api::SwitchPhases& phases);

}  // namespace trimtab::cli
