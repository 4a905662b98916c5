#pragma once

// Linux's wchar_t text (UTF-32) as UTF-8 in a buffer of ours, cut to what a name can hold.

#include <cstddef>
#include <cstdint>

#include "schema/record.hpp"

namespace trimtab::inject {

class WideText {
 public:
  explicit WideText(const wchar_t* text) {
    for (; text != nullptr && *text != L'\0' && used_ <= record::kNameBytes; ++text) {
      append(static_cast<std::uint32_t>(*text));
    }
    text_[used_] = '\0';
  }
  [[nodiscard]] const char* text() const { return text_; }
  [[nodiscard]] std::size_t length() const { return used_; }

 private:
  void append(std::uint32_t point) {
    if (point < 0x80) return byte(point);
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return byte('?');
    if (point < 0x800) return tail(0xc0 | point >> 6, point, 1);
    if (point < 0x10000) return tail(0xe0 | point >> 12, point, 2);
    tail(0xf0 | point >> 18, point, 3);
  }
  void tail(std::uint32_t first, std::uint32_t point, unsigned more) {
    byte(first);
    while (more-- > 0) byte(0x80 | (point >> (6 * more) & 0x3f));
  }
  void byte(std::uint32_t value) { text_[used_++] = static_cast<char>(value); }

  std::size_t used_ = 0;
  char text_[record::kNameBytes + 8];  // one character beyond the limit still fits, then the NUL
};

}  // namespace trimtab::inject
