#pragma once

// What `accelerate launch` puts into its ranks' environment, for ranks that start without it. Pure; any thread.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/plan_import.hpp"

namespace trimtab {

struct AccelerateEnvironment {
  std::map<std::string, std::string> variables;
  std::optional<std::int32_t> processes;  // in all; nothing: it does not say
  std::vector<std::string> unread;        // members of its file that do what no variable here does
};

// Of its file and launch_options. Fails where the file cannot be read.
[[nodiscard]] Result<AccelerateEnvironment> accelerate_environment(const PlanFile& file);

// Whether an option of the launcher, without its dashes, is among what the variables say.
[[nodiscard]] bool is_accelerate_option(std::string_view name);

}  // namespace trimtab
