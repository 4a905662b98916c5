#pragma once

// Lines and words of a text. Both are views into it. Pure.

#include <string_view>
#include <vector>

namespace trimtab {

// The first line, which is taken off the text: without its end, be that "\n" or "\r\n".
[[nodiscard]] std::string_view take_line(std::string_view& text);

// What blanks and ends of lines part.
[[nodiscard]] std::vector<std::string_view> blank_parted(std::string_view text);

}  // namespace trimtab
