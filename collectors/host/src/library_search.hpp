#pragma once

// Where a job's process would find a shared library, without loading it here.

#include <map>
#include <string>
#include <vector>

namespace trimtab::host {

// LD_LIBRARY_PATH, `more`, then where distributions and CUDA's installers put libraries.
[[nodiscard]] std::vector<std::string> library_places(const std::map<std::string, std::string>& environment,
                                                      const std::vector<std::string>& more);
// The first file named `name` or `name`.N...; empty where there is none.
[[nodiscard]] std::string find_library(const std::string& root, const std::vector<std::string>& places,
                                       const std::string& name);

}  // namespace trimtab::host
