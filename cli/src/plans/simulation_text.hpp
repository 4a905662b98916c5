#pragma once

// A simulated job for people: what happened when, and what its decisions were worth. Pure.

#include <string>

#include "base/result.hpp"
#include "coordinator/simulation.hpp"

namespace trimtab::cli {

// "   12.3 min  trial    trial 2 rejected: …\n"
[[nodiscard]] std::string simulation_line(double seconds, const std::string& kind, const std::string& text);
// Of a "trimtab.simulation/1" document.
[[nodiscard]] Result<std::string> simulation_text(const std::string& simulation_json);

// The processor time that planning took: the one thing in a simulation that differs from run to run.
[[nodiscard]] std::string planning_text(const coordinator::SimulationOutcome& outcome);
// outcome.simulation_json with that under "planning".
[[nodiscard]] std::string timed_simulation(const coordinator::SimulationOutcome& outcome);

}  // namespace trimtab::cli
