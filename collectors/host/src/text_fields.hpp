#pragma once

// Cutting the kernel's texts into fields. The results point into the argument. Pure functions.

#include <string_view>
#include <vector>

namespace trimtab::host {

[[nodiscard]] std::string_view trim(std::string_view text);
// Between single separators; an empty text has no parts.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);
// Between runs of blanks; none of them is empty.
[[nodiscard]] std::vector<std::string_view> words(std::string_view text);

}  // namespace trimtab::host
