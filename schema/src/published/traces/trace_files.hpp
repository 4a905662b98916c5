#pragma once

// Which files paths mean.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace trimtab::published {

// A path is a file, or a folder: those directly in it that end in one of `endings`. `what`: for messages ("traces").
// Refused: a folder without one, more than 4096.
[[nodiscard]] Result<std::vector<std::string>> trace_files(const std::vector<std::string>& paths,
                                                           const std::vector<std::string_view>& endings,
                                                           const std::string& what);

}  // namespace trimtab::published
