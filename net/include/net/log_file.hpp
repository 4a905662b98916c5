#pragma once

// A daemon's log in a file of a bounded size, for daemons that no service manager keeps the log of: what the process
// writes to its standard error goes there, from whichever part of it. Loop thread only.

#include <unistd.h>

#include <string>

#include "base/result.hpp"
#include "base/units.hpp"

namespace trimtab::net {

class LogFile final {
 public:
  // From now on what is written to `descriptor` goes to the end of the file; so does standard output where that went to
  // the same place.
  [[nodiscard]] static Result<LogFile> open(const std::string& path, Bytes limit, int descriptor = STDERR_FILENO);

  // Where the file has reached its limit it is named PATH.1, in the place of the one before, and begun anew; emptied
  // where that fails. To be called about once a second: the file is larger by no more than what is written meanwhile.
  void look() const;

 private:
  LogFile(std::string path, Bytes limit, int descriptor)
      : path_(std::move(path)), limit_(limit), descriptor_(descriptor) {}
  [[nodiscard]] Status begin() const;

  std::string path_;
  Bytes limit_;
  int descriptor_;
};

}  // namespace trimtab::net
