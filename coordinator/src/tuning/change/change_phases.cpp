#include "tuning/change/change_phases.hpp"

#include <algorithm>

#include "base/numbers.hpp"

namespace trimtab::coordinator {

std::vector<std::pair<const char*, double>> ChangePhases::named() const {
  std::vector<std::pair<const char*, double>> phases;
  fields([&](const char* name, auto part, auto...) {
    if (this->*part > 0) phases.emplace_back(name, this->*part);
  });
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
