#pragma once

// The parts of a change of plan as the coordinator names them, in the order in which they come. Pure.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trimtab::cli {

using SwitchPhases = std::vector<std::pair<std::string, double>>;  // name and ms

inline constexpr std::string_view kSwitchPhases[] = {"stop",   "copy",  "queue", "start",      "save",   "move",
                                                     "groups", "build", "wait",  "first_step", "warm_up"};

// For people: "stopping and saving".
[[nodiscard]] std::string_view phase_words(std::string_view name);
// "214.5 ms, of which the snapshot 90 ms, moving state 40 ms"
[[nodiscard]] std::string change_text(double switch_ms, const SwitchPhases& phases);

}  // namespace trimtab::cli
