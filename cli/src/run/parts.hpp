#pragma once

// What a watched process loads: where it is installed beside these programs.

#include "base/result.hpp"

namespace trimtab::cli {

struct WatchParts {
  std::string library;  // libtrimtab-inject.so
  std::string client;   // the folder that holds the Python packages trimtab and watch_hook
};

// In ../lib or ../lib/trimtab of the programs, the client in python/ below it, or in client/python of the checkout that
// they were built in. An error names what is missing and where it was looked for.
[[nodiscard]] Result<WatchParts> watch_parts(const std::string& programs);

}  // namespace trimtab::cli
