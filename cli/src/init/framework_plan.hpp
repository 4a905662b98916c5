#pragma once

// The plan of a command whose framework takes plans in arguments of its own, and the model that it is of. Pure.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "init/job_draft.hpp"

namespace trimtab::cli {

// The target of what the command says; nothing where the script's text does not show that it takes such arguments.
[[nodiscard]] std::optional<std::string> framework_target(const CommandFacts& facts);
// Options that its plans decide, without their dashes. REQUIRES: a target that framework_target() names.
[[nodiscard]] std::span<const std::string_view> framework_plan_options(std::string_view target);

struct FrameworkPlan {
  Plan plan;
  Model model;
  std::vector<std::string> describe;     // prints the model
  std::vector<std::string> passed_over;  // members of the command's files that its plans would lack
};

// Fails where the model is not known, and on what plan_from_file() refuses. REQUIRES: facts.plan_file.
[[nodiscard]] Result<FrameworkPlan> framework_plan(const std::vector<std::string>& options, const CommandFacts& facts,
                                                   std::int32_t ranks, const std::string& name);

}  // namespace trimtab::cli
