#pragma once

// A TOML text, parsed within bounds. Private to schema/src/settings: toml++ stays out of other folders.

#include <toml++/toml.h>

#include <string_view>

#include "base/result.hpp"

namespace trimtab {

// Errors name `source` and the line.
[[nodiscard]] Result<toml::table> parse_toml(std::string_view text, std::string_view source);

}  // namespace trimtab
