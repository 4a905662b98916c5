#pragma once

// From text to a JSON tree, with limits: what a file or a peer sends must not exhaust the stack or be ambiguous.
// Private to schema: nlohmann's types stay out of public headers.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.hpp"

namespace trimtab {

using Json = nlohmann::json;                 // sorted members: the canonical form
using OrderedJson = nlohmann::ordered_json;  // members as written: for people

inline constexpr std::size_t kMaxDocumentBytes = std::size_t{64} << 20;

// The whole text as one value. Errors name `source`, and the line and column of what is malformed. A member that occurs
// twice is refused: readers would differ in which one they believe.
[[nodiscard]] Result<Json> parse_json_text(std::string_view text, std::string_view source);

// The whole of it, with U+FFFD for bytes that are not UTF-8.
[[nodiscard]] std::string valid_text(std::string_view text);

// The start of a text from elsewhere, in quotes and escaped, for messages: valid UTF-8 whatever came in.
[[nodiscard]] std::string quoted_text(std::string_view text);

// One line. Bytes that are not UTF-8 (names from other people's programs) become U+FFFD.
[[nodiscard]] std::string dump(const Json& json);
[[nodiscard]] std::string dump(const OrderedJson& json);

}  // namespace trimtab
