#include "postgres_placeholders.hpp"

namespace trimtab {

std::string with_dollars(std::string_view sql) {
  std::string text;
  int arguments = 0;
  char quote = '\0';
  for (std::size_t i = 0; i < sql.size(); ++i) {
    const char character = sql[i];
    if (quote == '\0' && (character == '\'' || character == '"')) {
      quote = character;
    } else if (character == quote) {
      quote = '\0';
    }
    if (character != '?' || quote != '\0') {
      text += character;
      continue;
    }
    const bool numbered = i + 1 < sql.size() && sql[i + 1] >= '0' && sql[i + 1] <= '9';
    text += numbered ? "$" : "$" + std::to_string(++arguments);
  }
  return text;
}

}  // namespace trimtab
