#pragma once

// The new lines of a log that somebody else writes, cuts and begins anew. Reads the file, nothing else.

#include <cstdint>
#include <string>
#include <vector>

namespace trimtab::cli {

class LogTail {
 public:
  explicit LogTail(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  // Whole lines since the last call, at most 64 KiB of them: the next call has the rest. None where it cannot be read.
  [[nodiscard]] std::vector<std::string> new_lines();

 private:
  std::string path_;
  std::uint64_t file_ = 0;  // its inode; another one is another launch's
  std::int64_t offset_ = 0;
  std::string part_;  // of a line whose end has not come yet
};

}  // namespace trimtab::cli
