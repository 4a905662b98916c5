#pragma once

// Parts of texts in UTF-8 that cut no character in two. Pure.

#include <cstddef>
#include <string>

namespace trimtab {

// A byte that is not a character's first.
[[nodiscard]] constexpr bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// Its first or last characters, whole ones, in at most so many bytes.
[[nodiscard]] std::string first_of(const std::string& text, std::size_t most);
[[nodiscard]] std::string last_of(const std::string& text, std::size_t most);

}  // namespace trimtab
