#pragma once

// Reads files of /proc and /sys, which have no size beforehand.

#include <string>

#include "base/result.hpp"

namespace trimtab::host {

// The whole of `path` under `root`, at most 4 MiB of it. kUnavailable, with the cause, when it cannot be read.
[[nodiscard]] Result<std::string> read_system_file(const std::string& root, const std::string& path);

}  // namespace trimtab::host
