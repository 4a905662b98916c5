#pragma once

// Which file a command's first word means, as a shell would find it; looked up before the fork, so that the error can
// say what was searched.

#include <string>

#include "base/result.hpp"

namespace trimtab::agent {

// A name with a slash is taken from `working_directory`; else PATH (`path`) is searched.
[[nodiscard]] Result<std::string> find_program(const std::string& name, const std::string& path,
                                               const std::string& working_directory);

}  // namespace trimtab::agent
