#pragma once

// Texts that peers send, which are valid UTF-8 (protobuf sees to that) and otherwise anything. Pure.

#include <cstddef>
#include <string>
#include <string_view>

namespace trimtab::coordinator {

// Its first or last characters, whole ones, in at most so many bytes.
[[nodiscard]] std::string first_of(const std::string& text, std::size_t most);
[[nodiscard]] std::string last_of(const std::string& text, std::size_t most);
// Without control characters: it may stand in a line of a log as it is.
[[nodiscard]] bool is_printable(std::string_view text);
// For a line of a log: cut to 400 bytes, '?' in place of control characters.
[[nodiscard]] std::string printable(const std::string& text);

}  // namespace trimtab::coordinator
