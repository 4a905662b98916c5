#pragma once

// What `trimtab plan import` reads a plan from: a file of a framework's, or Megatron-LM's arguments.

#include <string>
#include <variant>
#include <vector>

#include "schema/plan_import.hpp"

namespace trimtab::cli {

// Megatron-LM's arguments, and the ranks that a launcher before them starts.
struct MegatronWords {
  std::vector<std::string> words;
  std::optional<std::int32_t> ranks;
};

using PlanSource = std::variant<PlanFile, MegatronWords>;

// "megatron", and the formats of files.
[[nodiscard]] std::vector<std::string_view> plan_sources();

// `file` may be a configuration, a launch script or a list of arguments; `command` a command, or options alone. At
// least one of them is needed. A configuration that the command names is read. `from` says the format, else the content
// does. The ranks are those of a launcher.
[[nodiscard]] Result<PlanSource> read_plan_source(const std::string& file, const std::vector<std::string>& command,
                                                  const std::string& from);

}  // namespace trimtab::cli
