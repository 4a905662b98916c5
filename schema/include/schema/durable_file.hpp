#pragma once

// Small files that are whole after a power cut. Any thread; one writer of a path in a process.

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace trimtab {

// Writes a neighbour (PATH.new-PID), then renames it over `path`; bytes and name are on the disk when it returns. On
// failure, and after a power cut before it returned, `path` is what it was, or all of `text`. `mode` is that of the
// file, less this process's mask. Errors are kUnavailable and name the path and the cause.
[[nodiscard]] Status write_durably(const std::string& path, std::string_view text, mode_t mode);

// The same without waiting for the disk: after a power cut the file may be empty. Whatever has the name gives way, and
// no link is followed.
[[nodiscard]] Status replace_file(const std::string& path, std::string_view text, mode_t mode = 0666);

// The file that a path names where its last part is a link, or a link to a link. Else the path. Nothing needs to be
// there. Where it is to be written, a link that is neither root's nor this user's is refused: it may lead anywhere.
enum class LinksOf { kAnybody, kRootAndUser };
[[nodiscard]] Result<std::string> followed_name(const std::string& path, LinksOf whose);

// Syncs a file's bytes, or a directory's names. False: errno says why.
[[nodiscard]] bool reaches_disk(const std::string& path);

}  // namespace trimtab
