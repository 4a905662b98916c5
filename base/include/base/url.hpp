#pragma once

// Pure; any thread.

#include <algorithm>
#include <string_view>

namespace trimtab {

// Whether a text that stands for a place names it by a scheme ("s3://bucket/run"), so that it is no path of a file.
[[nodiscard]] inline bool is_url(std::string_view text) {
  const std::size_t end = text.find("://");
  if (end == std::string_view::npos || end == 0) return false;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto suits = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.'; };
  return letter(text.front()) && std::ranges::all_of(text.substr(0, end), suits);
}

}  // namespace trimtab
