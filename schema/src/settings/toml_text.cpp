#include "settings/toml_text.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "documents/toml_tree.hpp"

namespace trimtab {

namespace {

constexpr std::size_t kMaxTomlKeyParts = 8;

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

// TOML++ bounds how deeply values are nested, but not how many parts a dotted key has, and each is a table within the
// one before it: tens of thousands of them exhaust the stack when the tree is freed. So this goes before each parse.
// One look at each byte. Of what is no TOML it says something, too: as much as a parser would read before it gave up.
bool keys_are_short(std::string_view toml) {
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
    if (byte == '.' && ++seen > kMaxTomlKeyParts) return false;
    if (kEndOfKey.find(byte) != std::string_view::npos) seen = 1;
    ++i;
  }
  return true;
}

Json tree_of(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = tree_of(value);
    return object;
  }
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const toml::node& one : *array) list.push_back(tree_of(one));
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  const auto* number = node.as_floating_point();
  if (number != nullptr && std::isfinite(number->get())) return number->get();
  std::ostringstream out;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_value<decltype(value)>) out << value;
  });
  return out.str();
}

}  // namespace

Result<toml::table> parse_toml(std::string_view text, std::string_view source) {
  if (!keys_are_short(text)) {
    return bad_input(std::string(source) + ": a key of more than " + std::to_string(kMaxTomlKeyParts) + " parts");
  }
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    return bad_input(std::string(source) + ":" + std::to_string(error.source().begin.line) +
                     ": this is not TOML: " + std::string(error.description()));
  }
}

Result<Json> parse_toml_tree(std::string_view text, std::string_view source) {
  TRIMTAB_TRY(const toml::table table, parse_toml(text, source));
  return tree_of(table);
}

}  // namespace trimtab
