#include "targets/yaml_options.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>

#include "base/text_parts.hpp"
#include "documents/json_document.hpp"

namespace trimtab {

namespace {

constexpr std::string_view kBlank = " \t\r";

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

using Begins = std::function<bool(std::string_view line)>;

bool begins_block(std::string_view line, std::string_view name) {
  return line.starts_with(name) && trimmed(line.substr(name.size())).starts_with(':');
}

// "NAME: &ANCHOR", which "<<: *ANCHOR" stands for elsewhere.
bool is_anchored(std::string_view line, std::string_view anchor) {
  const std::size_t colon = line.find(':');
  const auto words = blank_parted(colon == std::string_view::npos ? "" : line.substr(colon + 1));
  return !words.empty() && words.front().starts_with('&') && words.front().substr(1) == anchor;
}

// Reads a text's blocks that `begins` holds for, or all of it where that is empty.
class YamlBlocks {
 public:
  YamlBlocks(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  // What a block says itself comes over what it merges.
  Result<std::vector<Option>> options(const Begins& begins, int levels) const {
    std::vector<Option> own;
    std::vector<Option> merged;
    bool inside = !begins;
    std::string_view rest = text_;
    for (std::int64_t number = 1; !rest.empty(); ++number) {
      const std::string_view line = take_line(rest);
      if (begins && !line.empty() && kBlank.find(line.front()) == std::string_view::npos && line.front() != '#') {
        inside = begins(line);
      }
      const std::string_view text = trimmed(line);
      if (inside && begins && text.starts_with("<<:")) {
        if (!merged.empty()) return refusal(number, "<<: a block is read with one merge, and this is the second");
        TRIMTAB_TRY(merged, merge(plain(trimmed(text.substr(3))), number, levels));
      }
      Option option = inside ? option_in(line) : Option{};
      if (option.name.empty()) continue;
      option.value = plain(option.value);
      const std::string_view value = option.value;
      if (value == "|" || value == ">" || value.starts_with("|-") || value.starts_with(">-")) {
        return refusal(number, std::string(option.name) + ": a value of several lines is not read; write it in one");
      }
      own.push_back(option);
    }
    std::erase_if(merged, [&](const Option& one) { return std::ranges::count(own, one.name, &Option::name) > 0; });
    merged.insert(merged.end(), own.begin(), own.end());
    return merged;
  }

 private:
  [[nodiscard]] Error refusal(std::int64_t line, const std::string& why) const {
    return bad_input(std::string(source_) + ":" + std::to_string(line) + ": " + why);
  }

  [[nodiscard]] Result<std::vector<Option>> merge(std::string_view value, std::int64_t line, int levels) const {
    const std::string_view anchor = value.substr(value.starts_with('*') ? 1 : 0);
    const Begins begins = [anchor](std::string_view top) { return is_anchored(top, anchor); };
    TRIMTAB_TRY(std::vector<Option> found, levels > 0 ? options(begins, levels - 1) : std::vector<Option>{});
    if (value.starts_with('*') && !found.empty()) return found;
    return refusal(line, "<<: expected *NAME, where a block with options begins with \"BLOCK: &NAME\", found " +
                             quoted_text(value));
  }

  std::string_view text_;
  std::string_view source_;
};

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
  static constexpr std::string_view kBlock = "MODEL_ARGS";
  constexpr int kLevels = 8;
  const bool has_block = text.starts_with("MODEL_ARGS:") || text.find("\nMODEL_ARGS:") != std::string_view::npos;
  const Begins begins = has_block ? [](std::string_view line) { return begins_block(line, kBlock); } : Begins();
  TRIMTAB_TRY(const std::vector<Option> options, YamlBlocks(text, source).options(begins, kLevels));
  std::vector<std::string> words;
  for (const auto& [name, value] : options) {
    if (value == "false") continue;
    words.emplace_back(name);
    if (!value.empty() && value != "true") add_words(value, words);
  }
  return words;
}

}  // namespace trimtab
