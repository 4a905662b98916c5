#pragma once

// Where the libraries of this release are: in ../lib of its programs as built, in ../lib/trimtab as packages install
// them.

#include <filesystem>
#include <string>

namespace trimtab::host {

// The first place that has it; where neither has, the first, for a message. Any thread may call.
[[nodiscard]] inline std::filesystem::path release_library(const std::filesystem::path& program_directory,
                                                           const std::string& name) {
  const std::filesystem::path libraries = program_directory / ".." / "lib";
  std::error_code failure;
  for (const auto& place : {libraries / name, libraries / "trimtab" / name}) {
    if (std::filesystem::exists(place, failure)) return place.lexically_normal();
  }
  return (libraries / name).lexically_normal();
}

}  // namespace trimtab::host
