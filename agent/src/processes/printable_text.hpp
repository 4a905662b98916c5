#pragma once

// Bytes from a training process as text that JSON, SQL and terminals can take: what is not valid UTF-8, or is a control
// character, becomes '?'; a character that was cut at the end goes. A pure function.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trimtab::agent {

namespace printable {

// How many bytes a character takes that starts so; 0 for a byte that starts none.
inline std::size_t expected_bytes(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  if (first >= 0xf0 && first < 0xf5) return 4;
  return 0;
}

// How many of the bytes from `at` are the beginning of a valid character: as many as expected for a whole one.
inline std::size_t valid_bytes(std::string_view text, std::size_t at, std::size_t expected) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  std::size_t valid = 1;
  while (valid < expected && at + valid < text.size() && (byte(valid) & 0xc0) == 0x80) ++valid;
  if (valid < 2) return valid;
  const unsigned second = byte(1);  // no overlong forms, no surrogates, nothing beyond U+10FFFF
  const bool wrong = (byte(0) == 0xe0 && second < 0xa0) || (byte(0) == 0xed && second >= 0xa0) ||
                     (byte(0) == 0xf0 && second < 0x90) || (byte(0) == 0xf4 && second >= 0x90);
  return wrong ? 1 : valid;
}

}  // namespace printable

inline std::string printable_text(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size();) {
    const auto first = static_cast<unsigned char>(bytes[i]);
    const std::size_t expected = printable::expected_bytes(first);
    const std::size_t valid = expected == 0 ? 0 : printable::valid_bytes(bytes, i, expected);
    if (valid == expected && valid != 0 && first >= 0x20 && first != 0x7f) {
      text.append(bytes.substr(i, valid));
      i += valid;
    } else if (valid != 0 && valid < expected && i + valid == bytes.size()) {
      break;  // cut in the middle of a character
    } else {
      text.push_back('?');
      ++i;
    }
  }
  return text;
}

// The end of a program's output, for messages. Pure, but for the file.

// The last `most` bytes, whole lines where possible, line by line printable, without a final newline.
[[nodiscard]] std::string last_lines(std::string_view output, std::size_t most);

// The same of a file; empty when it cannot be read.
[[nodiscard]] std::string last_lines_of_file(const std::string& path, std::size_t most);

}  // namespace trimtab::agent
