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
[[nodiscard]] Status make_directories(const std::string& path);

}  // namespace trimtab::cli
