#include "settings/toml_nesting.hpp"

#include <algorithm>
#include <string>

namespace trimtab {

namespace {

// Where the text that begins at `at` has ended; a single-line one ends with its line.
std::size_t end_of_text(std::string_view toml, std::size_t at) {
  const char quote = toml[at];
  const std::string three(3, quote);
  const bool many_lines = toml.substr(at).starts_with(three);
  std::size_t i = at + (many_lines ? 3 : 1);
  for (; i < toml.size(); ++i) {
    if (many_lines ? toml.substr(i).starts_with(three) : toml[i] == quote) return i + (many_lines ? 3 : 1);
    if (!many_lines && toml[i] == '\n') return i;
    if (toml[i] == '\\' && quote == '"') ++i;
  }
  return i;
}

}  // namespace

bool toml_keys_within(std::string_view toml, std::size_t parts) {
  constexpr std::string_view kEndOfKey = "\n=,[]{}";
  std::size_t seen = 1;
  for (std::size_t i = 0; i < toml.size();) {
    const char byte = toml[i];
    if (byte == '"' || byte == '\'') {
      i = end_of_text(toml, i);
      continue;
    }
    if (byte == '#') {
      i = std::min(toml.find('\n', i), toml.size());
      continue;
    }
    if (byte == '.' && ++seen > parts) return false;
    if (kEndOfKey.find(byte) != std::string_view::npos) seen = 1;
    ++i;
  }
  return true;
}

}  // namespace trimtab
