#include "run/variables.hpp"

#include <unistd.h>

#include "arguments.hpp"

extern char** environ;

namespace trimtab::cli {

Variables own_variables() {
  Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::string value_of(const Variables& variables, const std::string& name) {
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

std::optional<std::int64_t> number_of(const Variables& variables, const std::string& name) {
  const auto number = parse_number<std::int64_t>(value_of(variables, name));
  return number && *number >= 0 ? number : std::nullopt;
}

std::vector<std::string> changed_environment(const VariableChanges& changes) {
  std::vector<std::string> texts;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) texts.push_back(text);
  }
  for (const auto& [name, value] : changes) {
    if (value) texts.push_back(name + "=" + *value);
  }
  return texts;
}

}  // namespace trimtab::cli
