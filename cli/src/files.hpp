#pragma once

// Whole files, with errors that name the file and the cause.

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace trimtab::cli {

// A file that is not there or cannot be read is bad input: the person named it.
[[nodiscard]] Result<std::string> read_file(const std::string& path);
// Writes a neighbour and renames it over `path`, so that a reader never sees half a file. Failure is kUnavailable.
[[nodiscard]] Status write_file(const std::string& path, std::string_view content);
// The same, readable by its owner alone from the first byte on, and on the disk when it returns.
[[nodiscard]] Status write_private_file(const std::string& path, std::string_view content);
// Where it was not there before, for its owner alone.
[[nodiscard]] Status make_private_directory(const std::string& path);
[[nodiscard]] Status make_directories(const std::string& path);

}  // namespace trimtab::cli
