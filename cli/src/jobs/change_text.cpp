#include "jobs/change_text.hpp"

#include <string_view>

#include "base/numbers.hpp"

namespace trimtab::cli {

namespace {

// ", of which the snapshot 90 ms, moving state 40 ms"
std::string parts_text(const api::SwitchPhases& phases) {
  std::string text;
  api::SwitchPhases::fields([&](std::string_view, auto part, api::Presence, std::string_view words) {
    if (phases.*part > 0)
      text += (text.empty() ? ", of which " : ", ") + std::string(words) + " " + format_ms(phases.*part);
  });
  return text;
}

}  // namespace

bool is_told(const api::SwitchPhases& phases) {
  return !parts_text(phases).empty();
}

std::string change_text(double switch_ms, const api::SwitchPhases& phases) {
  return format_ms(switch_ms) + parts_text(phases);
}

}  // namespace trimtab::cli
