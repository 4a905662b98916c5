#include "run/parts.hpp"

#include <filesystem>
#include <vector>

#include "files.hpp"
#include "host/release_library.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

constexpr const char* kHook = "watch_hook/sitecustomize.py";

}  // namespace

Result<WatchParts> watch_parts(const std::string& programs) {
  WatchParts parts{host::release_library(programs, "libtrimtab-inject.so").string(), ""};
  if (!is_there(parts.library)) {
    return unavailable(parts.library + " is missing: install the package trimtab, or build trimtab-injected");
  }
  std::vector<std::string> places;
  for (const char* place : {"/../lib/trimtab/python", "/../lib/python", "/../../../client/python"}) {
    places.push_back(std::filesystem::path(programs + place).lexically_normal().string());
    // A colon would end the folder's name in PYTHONPATH.
    if (parts.client.empty() && is_there(places.back() + "/" + kHook) && places.back().find(':') == std::string::npos) {
      parts.client = places.back();
    }
  }
  if (!parts.client.empty()) return parts;
  return unavailable(std::string(kHook) + " of the Python client is missing in " + joined(places) +
                     ": install the package trimtab");
}

}  // namespace trimtab::cli
