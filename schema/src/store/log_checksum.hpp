#pragma once

// The checksum of an SQLite log (sqlite.org/fileformat.html): of everything in it so far, each frame's on top of those
// before it.

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "store/page_bytes.hpp"

namespace trimtab {

class LogChecksum {
 public:
  LogChecksum() = default;
  // Of a log that begins so.
  explicit LogChecksum(std::string_view head) : big_endian_((number_at(head, 0) & 1U) != 0) {
    add(head.substr(0, kLogHead - 8));
  }
  void add_frame(std::string_view frame) {
    add(frame.substr(0, 8));
    add(frame.substr(kFrameHead));
  }
  [[nodiscard]] bool is_at(std::string_view bytes, std::size_t place) const {
    return number_at(bytes, place) == first_ && number_at(bytes, place + 4) == second_;
  }
  [[nodiscard]] bool is(std::uint32_t first, std::uint32_t second) const {
    return first == first_ && second == second_;
  }

 private:
  void add(std::string_view bytes) {
    for (std::size_t place = 0; place + 8 <= bytes.size(); place += 8) {
      first_ += word(bytes, place) + second_;
      second_ += word(bytes, place + 4) + first_;
    }
  }
  [[nodiscard]] std::uint32_t word(std::string_view bytes, std::size_t place) const {
    std::uint32_t number = 0;
    std::memcpy(&number, bytes.data() + place, sizeof number);
    return big_endian_ == (std::endian::native == std::endian::big) ? number : __builtin_bswap32(number);
  }

  bool big_endian_ = false;
  std::uint32_t first_ = 0;
  std::uint32_t second_ = 0;
};

}  // namespace trimtab
