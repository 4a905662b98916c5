#include "ranks/placeholders.hpp"

#include "schema/nearest.hpp"

namespace trimtab::agent {

namespace {

constexpr const char* kNameCharacters = "abcdefghijklmnopqrstuvwxyz_";

Error unknown(const std::string& argument, const std::string& name, const Placeholders& values) {
  std::vector<std::string> known;
  for (const auto& [key, value] : values) known.push_back(key);
  const std::string hint = known.empty() ? "This command has none" : "Did you mean {" + nearest(name, known) + "}?";
  return bad_input("the argument '" + argument + "' has the placeholder {" + name +
                   "}, which this command has no value for. " + hint);
}

// The name between the brace at `open` and the next closing one, or empty.
std::string name_at(const std::string& argument, std::size_t open) {
  const auto close = argument.find_first_not_of(kNameCharacters, open + 1);
  if (close == std::string::npos || argument[close] != '}') return {};
  return argument.substr(open + 1, close - open - 1);
}

Result<std::string> expand_one(const std::string& argument, const Placeholders& values) {
  std::string expanded;
  for (std::size_t i = 0; i < argument.size(); ++i) {
    const std::string name = argument[i] == '{' ? name_at(argument, i) : "";
    if (name.empty()) {
      expanded.push_back(argument[i]);
      continue;
    }
    const auto found = values.find(name);
    if (found == values.end()) return unknown(argument, name, values);
    expanded += found->second;
    i += name.size() + 1;
  }
  return expanded;
}

}  // namespace

Result<std::vector<std::string>> expand(const std::vector<std::string>& arguments, const Placeholders& values) {
  std::vector<std::string> expanded;
  for (const auto& argument : arguments) {
    TRIMTAB_TRY(std::string text, expand_one(argument, values));
    expanded.push_back(std::move(text));
  }
  return expanded;
}

}  // namespace trimtab::agent
