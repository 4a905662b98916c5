#pragma once

// Lines and words of a text, which are views into it, and a text of many. Pure.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab {

// The first line, which is taken off the text: without its end, be that "\n" or "\r\n".
[[nodiscard]] std::string_view take_line(std::string_view& text);

// What blanks and ends of lines part.
[[nodiscard]] std::vector<std::string_view> blank_parted(std::string_view text);

// Without the blanks and ends of lines at its own ends.
[[nodiscard]] std::string_view trimmed(std::string_view text);

// What stands between separators, be it empty: one more than there are separators.
[[nodiscard]] std::vector<std::string_view> parted(std::string_view text, char separator = ',');

// "a, b": what `text_of` makes of each.
template <typename List, typename TextOf = std::identity>
[[nodiscard]] std::string joined(const List& list, std::string_view between = ", ", TextOf text_of = {}) {
  std::string text;
  for (const auto& one : list) (text += text.empty() ? "" : between) += std::invoke(text_of, one);
  return text;
}

}  // namespace trimtab
