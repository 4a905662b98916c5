#pragma once

// The JSON objects of a file that holds one after the other (a line each, or spread over lines), as texts. Streams:
// only the object at hand is in memory. Single-threaded.

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "published/traces/byte_source.hpp"

namespace trimtab::published {

class JsonObjects {
 public:
  static constexpr std::size_t kLongest = std::size_t{1} << 20;

  explicit JsonObjects(ByteSource& source) : source_(source) {}

  // The next one, from its first brace to its last; nothing at the end of the file. Refused: what stands between
  // objects and is no blank, an object of more than kLongest bytes. The error begins with the line.
  [[nodiscard]] Result<std::optional<std::string>> next();
  // Of the object that next() gave last: where it begins.
  [[nodiscard]] std::uint64_t line() const { return line_; }
  // The file ended within an object: its writer was cut off, or still writes.
  [[nodiscard]] bool is_cut() const { return cut_; }

 private:
  void skip_blanks();

  ByteSource& source_;
  std::uint64_t next_line_ = 1;
  std::uint64_t line_ = 1;
  bool cut_ = false;
};

}  // namespace trimtab::published
