#pragma once

// YAML in its block style, as configurations of accelerate and Lightning are written: names with values, objects by
// their indentation, lists of values. A value may be in the flow style (yaml_flow.hpp). Anchors, tags and texts of
// several lines are refused. Pure.

#include "documents/json_document.hpp"

namespace trimtab {

// An object. Errors name `source` and the line. A name that stands twice in an object is refused.
[[nodiscard]] Result<Json> parse_yaml_blocks(std::string_view text, std::string_view source);

// The same of a file that is JSON where it begins with {.
[[nodiscard]] Result<Json> parse_json_or_yaml(std::string_view text, std::string_view source);

}  // namespace trimtab
