#pragma once

// What SQLite keeps of a log in memory that all who have the file open share (sqlite.org/walformat.html): PATH-shm, in
// words of 32 bits as the processor has them. It outlives a killed process. The first who opens the file then makes it
// anew from the log, and knows of no copy any more.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>

namespace trimtab {

struct LogIndex {
  std::array<std::uint32_t, 33> words{};

  [[nodiscard]] std::int64_t page_size() const {
    const auto size = std::bit_cast<std::array<std::uint16_t, 2>>(words[3])[1];
    return size == 1 ? 65536 : size;
  }
  [[nodiscard]] std::uint32_t frames() const { return words[4]; }
  [[nodiscard]] std::int64_t file_size() const { return page_size() * words[5]; }
  [[nodiscard]] std::uint32_t copied() const { return words[24]; }
  // The file has been synced since: of a part that was copied it may not have been.
  [[nodiscard]] bool is_copied() const { return copied() == frames(); }
  [[nodiscard]] std::uint32_t to_be_copied() const { return words[32]; }  // set before the copying begins
  [[nodiscard]] std::string salts() const { return {reinterpret_cast<const char*>(&words[8]), 8}; }
  // It stands twice, and somebody may be writing it.
  [[nodiscard]] bool is_whole() const { return std::equal(words.begin(), words.begin() + 12, words.begin() + 12); }
};

}  // namespace trimtab
