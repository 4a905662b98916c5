#include "jobs/redaction.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <vector>

#include "schema/api/printed_text.hpp"

namespace trimtab::cli {
namespace {

using Document = nlohmann::ordered_json;

constexpr std::array<std::string_view, 10> kNames{"name", "node", "job", "who",  "tenant",
                                                  "user", "host", "by",  "path", "instance"};
constexpr std::size_t kLongestText = 300;
constexpr std::size_t kShortest = 2;  // of a name that is looked for inside other text

bool is_name(std::string_view key) {
  return std::ranges::find(kNames, key) != kNames.end();
}

bool is_part_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

bool stands_alone(const std::string& text, std::size_t at, std::size_t length) {
  return (at == 0 || !is_part_of_word(text[at - 1])) &&
         (at + length >= text.size() || !is_part_of_word(text[at + length]));
}

void replace_word(std::string& text, const std::string& name, const std::string& by) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
    if (stands_alone(text, at, name.size())) text.replace(at, name.size(), by);
    at += 1;
  }
}

bool ends_path(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("\"'`,;()<>|").find(c) != std::string_view::npos;
}

// Absolute paths, and what follows '~'.
std::string without_paths(const std::string& text) {
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    const bool begins = at == 0 || ends_path(text[at - 1]) || text[at - 1] == '=' || text[at - 1] == ':';
    const bool path = begins && (text[at] == '/' || (text[at] == '~' && at + 1 < text.size() && text[at + 1] == '/'));
    if (!path) {
      kept += text[at++];
      continue;
    }
    const auto end = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), ends_path);
    const auto length = static_cast<std::size_t>(end - text.begin()) - at;
    kept += length > 1 ? "/redacted" : "/";
    at += length;
  }
  return kept;
}

// Four numbers with dots.
std::string without_addresses(const std::string& text) {
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    int dots = 0;
    while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) != 0 ||
                                 (text[end] == '.' && end > at && text[end - 1] != '.'))) {
      dots += text[end++] == '.' ? 1 : 0;
    }
    const bool address = dots == 3 && text[end - 1] != '.' && (at == 0 || !is_part_of_word(text[at - 1]));
    kept += address ? "an-address" : text.substr(at, std::max<std::size_t>(end - at, 1));
    at = std::max(end, at + 1);
  }
  return kept;
}

}  // namespace

void Redaction::learn_name(const std::string& name) {
  if (name.empty() || name == "*") return;
  const auto [entry, fresh] = names_.try_emplace(name);
  if (fresh) entry->second = "redacted-" + std::to_string(names_.size());
}

void Redaction::learn(const Document& document) {
  if (document.is_array()) {
    for (const Document& one : document) learn(one);
    return;
  }
  if (!document.is_object()) return;
  for (const auto& [key, value] : document.items()) {
    if (value.is_string() && is_name(key)) {
      learn_name(value.get<std::string>());
    } else {
      learn(value);
    }
  }
}

std::string Redaction::apply(const std::string& text) const {
  std::string kept = text.substr(0, text.find('\n')).substr(0, kLongestText);
  if (const auto printed = api::printed_in(kept)) kept.resize(printed->words);
  // The longest first: a name may be part of another.
  std::vector<std::pair<std::string, std::string>> names(names_.begin(), names_.end());
  std::ranges::sort(names, [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  for (const auto& [name, by] : names) {
    if (name.size() >= kShortest) replace_word(kept, name, by);
  }
  return without_addresses(without_paths(kept));
}

Document Redaction::apply(const Document& document) const {
  if (document.is_string()) {
    const auto text = document.get<std::string>();
    const auto known = names_.find(text);
    return known != names_.end() ? known->second : apply(text);
  }
  if (!document.is_structured()) return document;
  Document kept = document;
  for (Document& one : kept) one = apply(one);
  return kept;
}

}  // namespace trimtab::cli
