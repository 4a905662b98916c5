#pragma once

// Reads files of /proc and /sys, which have no size beforehand.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace trimtab::host {

// The whole of `path` under `root`, at most 4 MiB of it. kUnavailable, with the cause, when it cannot be read.
[[nodiscard]] Result<std::string> read_system_file(const std::string& root, const std::string& path);

// The same, empty where it cannot be read, and the number in it, where it is one.
[[nodiscard]] std::string system_text(const std::string& root, const std::string& path);
[[nodiscard]] std::optional<std::int64_t> system_integer(const std::string& root, const std::string& path);

// `path` under `root`, for calls of the system.
[[nodiscard]] std::string system_path(const std::string& root, const std::string& path);
// The names in a directory, sorted; none where it is missing or closed to us.
[[nodiscard]] std::vector<std::string> list_system_directory(const std::string& root, const std::string& path);
[[nodiscard]] bool system_path_exists(const std::string& root, const std::string& path);

}  // namespace trimtab::host
