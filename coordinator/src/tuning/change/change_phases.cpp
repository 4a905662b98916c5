#include "tuning/change/change_phases.hpp"

#include <algorithm>

#include "base/numbers.hpp"

namespace trimtab::coordinator {

std::vector<std::pair<const char*, double>> ChangePhases::named() const {
  std::vector<std::pair<const char*, double>> phases;
  const std::pair<const char*, double> all[] = {{"stop", stop_ms},      {"copy", copy_ms},
                                                {"queue", queue_ms},    {"start", start_ms},
                                                {"save", save_ms},      {"move", move_ms},
                                                {"groups", groups_ms},  {"build", build_ms},
                                                {"wait", wait_ms},      {"first_step", first_step_ms},
                                                {"warm_up", warm_up_ms}};
  for (const auto& phase : all) {
    if (phase.second > 0) phases.push_back(phase);
  }
  return phases;
}

double ChangePhases::sum_ms() const {
  double sum = 0;
  for (const auto& [name, ms] : named()) sum += ms;
  return sum;
}

std::string ChangePhases::words() const {
  std::string text;
  for (const auto& [name, ms] : named()) {
    std::string word = name;
    std::ranges::replace(word, '_', ' ');
    text += (text.empty() ? "" : ", ") + word + " " + format_ms(ms);
  }
  return text;
}

}  // namespace trimtab::coordinator
