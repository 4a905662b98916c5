#pragma once

// A simulated job for people: what happened when, and what its decisions were worth. Pure.

#include <string>

#include "base/result.hpp"

namespace trimtab::cli {

// "   12.3 min  trial    trial 2 rejected: …\n"
[[nodiscard]] std::string simulation_line(double seconds, const std::string& kind, const std::string& text);
// Of a "trimtab.simulation/1" document.
[[nodiscard]] Result<std::string> simulation_text(const std::string& simulation_json);

}  // namespace trimtab::cli
