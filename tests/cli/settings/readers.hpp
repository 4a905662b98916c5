#pragma once

// The four readers of TOML settings (agent, coordinator, job.toml, scenarios), as the tests of what they say ask them.

#include <functional>
#include <string>
#include <vector>

struct SettingsReader {
  std::string name;
  std::vector<std::string> keys;  // "trials.blocks"
  // What the reader says of a file "FILE" with these lines beside all that it needs: "ok" or the error.
  std::function<std::string(const std::string& lines)> says;
};
[[nodiscard]] const std::vector<SettingsReader>& settings_readers();
