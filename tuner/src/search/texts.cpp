#include "search/texts.hpp"

#include <cstdio>

namespace trimtab::tuner {

std::string first_names(const std::set<std::string>& names) {
  constexpr std::size_t kNamed = 8;
  std::string text;
  std::size_t named = 0;
  for (const std::string& name : names) {
    if (named++ == kNamed) return text + "; ...";
    text += (named > 1 ? "; " : "") + name;
  }
  return text;
}

std::string percent_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%", 100 * share);
  return text;
}

}  // namespace trimtab::tuner
