#include "targets/yaml_options.hpp"

#include <algorithm>
#include <cstdint>

#include "base/text_parts.hpp"

namespace trimtab {

namespace {

constexpr std::string_view kBlank = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

struct Option {
  std::string_view name;  // "--hidden-size"; empty: the line is none
  std::string_view value;
};

Option option_in(std::string_view line) {
  const std::string_view text = trimmed(line);
  const std::size_t colon = text.find(':');
  if (!text.starts_with("--") || colon == std::string_view::npos || colon == 2) return {};
  if (colon + 1 < text.size() && kBlank.find(text[colon + 1]) == std::string_view::npos) return {};
  const std::string_view name = text.substr(0, colon);
  if (name.find_first_of(" \t\"'") != std::string_view::npos) return {};
  return {name, trimmed(text.substr(colon + 1))};
}

// What stands in quotes, or up to a remark.
std::string_view plain(std::string_view value) {
  if (value.size() > 1 && (value.front() == '"' || value.front() == '\'')) {
    const std::size_t end = value.find(value.front(), 1);
    if (end != std::string_view::npos) return value.substr(1, end - 1);
  }
  if (value.starts_with('#')) return "";
  return trimmed(value.substr(0, value.find(" #")));
}

void add_words(std::string_view value, std::vector<std::string>& words) {
  const bool list = value.size() > 1 && value.front() == '[' && value.back() == ']';
  if (!list) {
    words.emplace_back(value);
    return;
  }
  std::string inside(value.substr(1, value.size() - 2));
  std::ranges::replace(inside, ',', ' ');
  for (const std::string_view word : blank_parted(inside)) words.emplace_back(word);
}

bool begins_block(std::string_view line, std::string_view name) {
  return line.starts_with(name) && trimmed(line.substr(name.size())).starts_with(':');
}

}  // namespace

bool has_yaml_options(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (!line.empty() && kBlank.find(line.front()) != std::string_view::npos && !option_in(line).name.empty())
      return true;
  }
  return false;
}

Result<std::vector<std::string>> yaml_options(std::string_view text, std::string_view source) {
  constexpr std::string_view kBlock = "MODEL_ARGS";
  const bool has_block = text.starts_with("MODEL_ARGS:") || text.find("\nMODEL_ARGS:") != std::string_view::npos;
  bool inside = !has_block;
  std::vector<std::string> words;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (has_block && !line.empty() && kBlank.find(line.front()) == std::string_view::npos && line.front() != '#') {
      inside = begins_block(line, kBlock);
    }
    const Option option = inside ? option_in(line) : Option{};
    if (option.name.empty()) continue;
    const std::string_view value = plain(option.value);
    if (value == "|" || value == ">" || value.starts_with("|-") || value.starts_with(">-")) {
      return bad_input(std::string(source) + ":" + std::to_string(number) + ": " + std::string(option.name) +
                       ": a value of several lines is not read; write it in one");
    }
    if (value == "false") continue;
    words.emplace_back(option.name);
    if (!value.empty() && value != "true") add_words(value, words);
  }
  return words;
}

}  // namespace trimtab
