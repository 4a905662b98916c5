#pragma once

// The command by which a shell script launches its ranks, read without running the script. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab::cli {

struct LaunchInScript {
  std::vector<std::string> words;    // NAME=VALUE of what the script exports, then the command
  std::int64_t line = 1;             // where the command begins
  std::vector<std::string> unknown;  // of its words and of the exports, those that only a run can tell: "$1"
};

// The last command with a launcher and a Python script or module behind it; without one, the last with Python and
// either. Nothing: there is none, or the text cannot be read as a shell script.
[[nodiscard]] std::optional<LaunchInScript> launch_in_script(std::string_view text, std::string_view source);

}  // namespace trimtab::cli
