#include "jobs/switch_phases.hpp"

#include <algorithm>
#include <iterator>

#include "base/numbers.hpp"

namespace trimtab::cli {

std::string_view phase_words(std::string_view name) {
  const auto* const found = std::ranges::find(kSwitchPhases, name, &SwitchPhase::name);
  return found == std::end(kSwitchPhases) ? name : found->words;
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
