#pragma once

// A database file of which a disk has flipped a bit.

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/random.hpp"

namespace trimtab::test {

inline constexpr std::size_t kDatabasePage = 4096;
// What SQLite writes at the begin of the first one: of that alone not all can be mended.
inline constexpr std::size_t kDatabaseHeader = 100;

[[nodiscard]] inline std::string content_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// In the place of whatever stands there, and beside it, but for the copy of its first page.
inline void put_database(const std::string& path, const std::string& bytes) {
  for (const char* end : {"-wal", "-shm", ".damaged", ".damaged-2", ".suspect"}) std::filesystem::remove(path + end);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

struct BitFlip {
  std::size_t place = 0;
  int bit = 0;
};

// Anywhere but in the first `sound` bytes.
[[nodiscard]] inline BitFlip flip_bit(std::string& bytes, Random& random, std::size_t sound = 0) {
  const BitFlip flip{sound + random.below(bytes.size() - sound), static_cast<int>(random.below(8))};
  bytes[flip.place] = static_cast<char>(bytes[flip.place] ^ (1 << flip.bit));
  return flip;
}

// The first that is in the middle of these words, so that a value is another one and all else is sound.
inline void change_words(std::string& bytes, const std::string& words) {
  const std::size_t place = bytes.find(words);
  if (place == std::string::npos) throw std::string("not there: " + words);
  bytes[place + words.size() / 2] = static_cast<char>(bytes[place + words.size() / 2] ^ 1);
}

}  // namespace trimtab::test
