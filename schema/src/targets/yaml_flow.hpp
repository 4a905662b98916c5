#pragma once

// YAML in its flow style, as GPT-NeoX's configurations are written: JSON with remarks, commas that end lists, names and
// words without quotes, True and False. YAML's blocks, anchors and tags are not read. Pure.

#include <vector>

#include "documents/json_document.hpp"

namespace trimtab {

// One value, or several one after another: at least one. Errors name `source` and the line. A name that stands twice in
// an object is refused.
[[nodiscard]] Result<std::vector<Json>> parse_yaml_flows(std::string_view text, std::string_view source);

// What a word without quotes says: a number, true, false, nothing (null, ~), or itself.
[[nodiscard]] Json yaml_scalar(std::string_view word);

}  // namespace trimtab
