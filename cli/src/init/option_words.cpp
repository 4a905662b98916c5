#include "init/option_words.hpp"

#include <algorithm>

namespace trimtab::cli {

std::string option_of(const std::string& word) {
  std::string name = word.substr(0, word.find('='));
  std::ranges::replace(name, '_', '-');
  return name;
}

std::optional<std::string> value_of(const Words& words, const Names& names) {
  std::optional<std::string> value;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (std::ranges::find(names, option_of(words[i])) == names.end()) continue;
    const std::size_t equals = words[i].find('=');
    if (equals != std::string::npos) {
      value = words[i].substr(equals + 1);
    } else if (i + 1 < words.size()) {
      value = words[i + 1];
    }
  }
  return value;
}

bool has_option(const Words& words, std::string_view name) {
  return std::ranges::any_of(words, [&](const std::string& word) { return option_of(word) == name; });
}

Words with_value(Words words, const Names& names, const std::string& value) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (std::ranges::find(names, option_of(words[i])) == names.end()) continue;
    const std::size_t equals = words[i].find('=');
    if (equals != std::string::npos) words[i].replace(equals + 1, std::string::npos, value);
    if (equals == std::string::npos && i + 1 < words.size()) words[++i] = value;
  }
  return words;
}

std::string spelling_of(const Words& words, const Names& names) {
  const auto found = std::ranges::find_if(
      words, [&](const std::string& word) { return std::ranges::find(names, option_of(word)) != names.end(); });
  return found == words.end() ? "" : found->substr(0, found->find('='));
}

}  // namespace trimtab::cli
