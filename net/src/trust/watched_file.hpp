#pragma once

// A small file that a daemon reads again when it has changed.

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>

#include "base/clock.hpp"
#include "base/result.hpp"

namespace trimtab::net {

class WatchedFile final {
 public:
  explicit WatchedFile(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  // True when it is not the file of the last read(), by its inode, size or time of change; also when it has gone or
  // come. A failed read() counts, too: the same bad file is reported once.
  [[nodiscard]] bool changed() const;
  // What the file is to the daemon. kSecret: refused when everybody may read it. kGrants: see net/granting_file.hpp.
  enum class Kind { kPlain, kSecret, kGrants };
  // The whole file. `user` is the one that reads it.
  [[nodiscard]] Result<std::string> read(Kind kind, uid_t user = ::geteuid());

 private:
  struct Stamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t bytes = -1;  // -1: there is no such file
    Nanoseconds changed{0};
    bool operator==(const Stamp&) const = default;
  };
  [[nodiscard]] static Stamp stamp_of(const struct ::stat& status);

  std::string path_;
  Stamp last_;
};

}  // namespace trimtab::net
