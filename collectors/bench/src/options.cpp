#include "options.hpp"

#include <algorithm>
#include <charconv>

namespace trimtab::bench {

namespace {

Result<std::int64_t> whole_number(std::string_view name, std::string_view text, std::int64_t low) {
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && value >= low) return value;
  return bad_input("--" + std::string(name) + " must be a whole number of " + std::to_string(low) +
                   " or more, found '" + std::string(text) + "'");
}

std::string listed(std::span<const std::string_view> known) {
  std::string text;
  for (const std::string_view name : known) {
    text += (text.empty() ? "--" : ", --") + std::string(name.ends_with('!') ? name.substr(0, name.size() - 1) : name);
  }
  return text;
}

}  // namespace

Result<Options> Options::parse(std::span<const std::string> words, std::span<const std::string_view> known) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].starts_with("--") ? words[i].substr(2) : "";
    if (!name.empty() && std::ranges::find(known, name + "!") != known.end()) {
      options.values_[name] = "";
    } else if (name.empty() || std::ranges::find(known, name) == known.end()) {
      return bad_input("unknown option '" + words[i] + "'; known are " + listed(known));
    } else if (++i == words.size()) {
      return bad_input("--" + name + " needs a value");
    } else {
      options.values_[name] = words[i];
    }
  }
  return options;
}

std::string Options::text(std::string_view name, std::string_view otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string(otherwise) : found->second;
}

Result<std::string> Options::required(std::string_view name) const {
  if (has(name)) return text(name, "");
  return bad_input("--" + std::string(name) + " is missing");
}

Result<std::int64_t> Options::integer(std::string_view name, std::int64_t otherwise, std::int64_t low) const {
  if (!has(name)) return otherwise;
  return whole_number(name, text(name, ""), low);
}

std::vector<std::string> Options::texts(std::string_view name, std::string_view otherwise) const {
  std::vector<std::string> parts(1);
  for (const char character : text(name, otherwise)) {
    if (character == ',') {
      parts.emplace_back();
    } else {
      parts.back() += character;
    }
  }
  return parts;
}

Result<std::vector<std::int64_t>> Options::integers(std::string_view name, std::string_view otherwise) const {
  std::vector<std::int64_t> values;
  for (const std::string& part : texts(name, otherwise)) {
    TRIMTAB_TRY(const std::int64_t value, whole_number(name, part, 1));
    values.push_back(value);
  }
  return values;
}

}  // namespace trimtab::bench
