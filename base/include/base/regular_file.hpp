#pragma once

// Reading a file whole that somebody else may have put there. Any thread.

#include <cstddef>
#include <string>

#include "base/result.hpp"

namespace trimtab {

// Of a regular file, `most` bytes at most: a pipe would be waited for, a device would never end. `follows`: also
// through a link at this very place. kUnavailable where the system refuses, kBadInput where it is no such file.
[[nodiscard]] Result<std::string> read_regular_file(const std::string& path, std::size_t most, bool follows = true);

}  // namespace trimtab
