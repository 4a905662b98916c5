#include "switch_phases.hpp"

#include <algorithm>
#include <array>

#include "base/numbers.hpp"

namespace trimtab::cli {

std::string_view phase_words(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kWords{
      {{"stop", "stopping and saving"},
       {"copy", "copying the checkpoint"},
       {"queue", "the scheduler's queue"},
       {"start", "starting"},
       {"save", "the snapshot"},
       {"move", "moving state"},
       {"groups", "communicators"},
       {"build", "building modules"},
       {"wait", "waiting for all ranks"},
       {"first_step", "the first step"},
       {"warm_up", "slower steps until it was warm"}}};
  const auto found = std::ranges::find(kWords, name, [](const auto& one) { return one.first; });
  return found == kWords.end() ? name : found->second;
}

std::string change_text(double switch_ms, const SwitchPhases& phases) {
  std::string text = format_ms(switch_ms);
  for (const auto& [name, ms] : phases) {
    text += text.find(", of which") == std::string::npos ? ", of which " : ", ";
    text += std::string(phase_words(name)) + " " + format_ms(ms);
  }
  return text;
}

}  // namespace trimtab::cli
