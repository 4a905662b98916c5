#pragma once

// The parts of a change of plan as the coordinator names them, in the order in which they come. Pure.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trimtab::cli {

using SwitchPhases = std::vector<std::pair<std::string, double>>;  // name and ms

struct SwitchPhase {
  std::string_view name;
  std::string_view words;  // for people
};
inline constexpr SwitchPhase kSwitchPhases[] = {{"stop", "stopping and saving"},
                                                {"copy", "copying the checkpoint"},
                                                {"queue", "the scheduler's queue"},
                                                {"start", "starting"},
                                                {"save", "the snapshot"},
                                                {"move", "moving state"},
                                                {"groups", "communicators"},
                                                {"build", "building modules"},
                                                {"wait", "waiting for all ranks"},
                                                {"first_step", "the first step"},
                                                {"warm_up", "slower steps until it was warm"}};

// For people: "stopping and saving".
[[nodiscard]] std::string_view phase_words(std::string_view name);
// "214.5 ms, of which the snapshot 90 ms, moving state 40 ms"
[[nodiscard]] std::string change_text(double switch_ms, const SwitchPhases& phases);

}  // namespace trimtab::cli
