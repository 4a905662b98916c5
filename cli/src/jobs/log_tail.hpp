#pragma once

// The new lines of a log that somebody else writes, cuts and begins anew. Reads the file, nothing else.

#include <cstdint>
#include <string>
#include <vector>

#include "base/descriptor.hpp"

namespace trimtab::cli {

class LogTail {
 public:
  explicit LogTail(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  // Whole lines since the last call, of at most 64 KiB: the next call has the rest. A log that another one has taken
  // the place of is read to its end first, and its last line counts as whole. None where it cannot be read.
  [[nodiscard]] std::vector<std::string> new_lines();
  // All that is left of the log that was read last, its last line also without an end: nobody writes it any more.
  [[nodiscard]] std::vector<std::string> rest();

 private:
  bool read_on(std::vector<std::string>& lines);
  [[nodiscard]] bool is_replaced() const;
  void take_part(std::vector<std::string>& lines);

  std::string path_;
  trimtab::Descriptor file_;  // held: it stays readable when the next launch has renamed it
  std::int64_t offset_ = 0;
  std::string part_;  // of a line whose end has not come yet
};

}  // namespace trimtab::cli
