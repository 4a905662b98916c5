#pragma once

// Texts that peers send, which are valid UTF-8 (protobuf sees to that) and otherwise anything. Pure.

#include <string>
#include <string_view>

#include "base/utf8.hpp"

namespace trimtab::coordinator {

// Without control characters: it may stand in a line of a log as it is.
[[nodiscard]] bool is_printable(std::string_view text);
// For a line of a log: cut to 400 bytes, '?' in place of control characters.
[[nodiscard]] std::string printable(const std::string& text);

}  // namespace trimtab::coordinator
