#include "tuning/switch_phases.hpp"

#include "base/numbers.hpp"

namespace trimtab::coordinator {

std::vector<std::pair<const char*, double>> SwitchPhases::named() const {
  std::vector<std::pair<const char*, double>> phases;
  const std::pair<const char*, double> all[] = {
      {"stop", stop_ms}, {"copy", copy_ms},     {"queue", queue_ms}, {"start", start_ms},          {"save", save_ms},
      {"move", move_ms}, {"groups", groups_ms}, {"build", build_ms}, {"first_step", first_step_ms}};
  for (const auto& phase : all) {
    if (phase.second > 0) phases.push_back(phase);
  }
  return phases;
}

std::string SwitchPhases::words() const {
  std::string text;
  for (const auto& [name, ms] : named()) {
    const std::string word = std::string(name) == "first_step" ? "first step" : name;
    text += (text.empty() ? "" : ", ") + word + " " + format_ms(ms);
  }
  return text;
}

}  // namespace trimtab::coordinator
