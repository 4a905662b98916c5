#pragma once

// Files that grant something: whom a daemon trusts (tokens, authorities, a deny list), what a site allows, and a
// daemon's own configuration, which names programs and libraries. Who can write such a file can grant himself what it
// grants. So it is read only where root or the reading user owns it, not everybody may write it, and not everybody may
// put another in its place. A group that may write is its owner's choice, as with keys. Any thread.

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/result.hpp"

namespace trimtab::net {

// `file` is what stands at `path`, by fstat() of what was opened. `user` is the one that reads it. The message says
// what is wrong and what to do. A directory on a file system that is mounted read-only here (a cluster's mounted
// configuration) may have any mode.
[[nodiscard]] Status check_granting_file(const std::string& path, const struct ::stat& file, uid_t user = ::geteuid());
// The same of the file that is there now: for those who look in a daemon's place.
[[nodiscard]] Status check_granting_file(const std::string& path, uid_t user);

// The whole file, checked. At most 4 MiB.
[[nodiscard]] Result<std::string> read_granting_file(const std::string& path);

}  // namespace trimtab::net
