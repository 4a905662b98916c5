#pragma once

// An NVTX event attribute structure as the recorder's Event. The structure belongs to the program: its size field says
// how much of it there is, and every field may be nonsense.

#include "nvtx_abi.hpp"
#include "recorder.hpp"

namespace trimtab::inject::nvtx {

// Linux's wchar_t text (UTF-32) as UTF-8 in a buffer of ours, cut to what a name can hold.
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

// Keeps the converted text of a wide message alive as long as itself.
class DecodedEvent {
 public:
  explicit DecodedEvent(const EventAttributes* attributes);
  [[nodiscard]] const Event& event() const { return event_; }

 private:
  WideText wide_;
  Event event_;
};

// False for a payload that is no number, or not one that an int64 can stand for.
bool decode_payload(const EventAttributes& attributes, std::int64_t& payload);

// Handles go through the program as pointers.
inline void* to_pointer(std::uint32_t handle) {
  return reinterpret_cast<void*>(std::uintptr_t{handle});
}
inline std::uint32_t to_handle(const void* pointer) {
  const auto value = reinterpret_cast<std::uintptr_t>(pointer);
  return value <= UINT32_MAX ? static_cast<std::uint32_t>(value) : 0;
}

}  // namespace trimtab::inject::nvtx
