#pragma once

// Which known word was probably meant.

#include <string>
#include <string_view>
#include <vector>

namespace trimtab {

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);
// The first of the nearest. REQUIRES: known is not empty.
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace trimtab
