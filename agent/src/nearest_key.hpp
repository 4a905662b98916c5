#pragma once

// Which known key was probably meant by a mistyped one.

#include <string>
#include <string_view>
#include <vector>

namespace trimtab::agent {

// The first of the nearest by edit distance. REQUIRES: known is not empty.
[[nodiscard]] std::string nearest_key(std::string_view word, const std::vector<std::string>& known);

}  // namespace trimtab::agent
