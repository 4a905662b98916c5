#pragma once

// Where what stands in an SQLite file's first page, and in its log (sqlite.org/fileformat.html).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trimtab {

inline constexpr std::size_t kFileHead = 100;
inline constexpr std::size_t kChangeCounter = 24;
inline constexpr std::size_t kSchemaCookie = 40;
inline constexpr std::size_t kUserVersion = 60;
inline constexpr std::size_t kApplicationId = 68;

inline constexpr std::size_t kLogHead = 32;
inline constexpr std::size_t kLogSalts = 16;  // which tell one log from the next in the same file
inline constexpr std::size_t kSalts = 8;
inline constexpr std::size_t kFrameHead = 24;  // before each page of a log

// Big-endian, as SQLite writes them.
[[nodiscard]] inline std::uint32_t number_at(std::string_view bytes, std::size_t place, std::size_t size = 4) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < size; ++i) number = number << 8 | static_cast<unsigned char>(bytes[place + i]);
  return number;
}

inline void put_number(std::string& bytes, std::size_t place, std::uint32_t number) {
  for (std::size_t i = 4; i-- > 0; number >>= 8) bytes[place + i] = static_cast<char>(number & 0xff);
}

// Its last bit says how checksums are counted.
[[nodiscard]] inline bool is_log(std::string_view head) {
  return (number_at(head, 0) & ~1U) == 0x377f0682;
}

}  // namespace trimtab
