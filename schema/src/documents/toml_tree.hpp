#pragma once

// A TOML text as the tree that JSON has, for readers of other programs' files.

#include "documents/json_document.hpp"

namespace trimtab {

// Dates, times and numbers without end become texts. Errors name `source` and the line.
[[nodiscard]] Result<Json> parse_toml_tree(std::string_view text, std::string_view source);

}  // namespace trimtab
