#pragma once

// What stands in a system's file, for messages. A process chooses the name that /proc/PID/stat has of it, and messages
// go to logs: what is no printable ASCII becomes '?', and of much only the beginning is shown.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace trimtab::host {

inline constexpr std::size_t kMostShownBytes = 200;

[[nodiscard]] inline std::string shown_text(std::string_view text) {
  std::string shown(text.substr(0, kMostShownBytes));
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  std::ranges::replace_if(
      shown, [&](char c) { return !printable(c); }, '?');
  return shown;
}

}  // namespace trimtab::host
