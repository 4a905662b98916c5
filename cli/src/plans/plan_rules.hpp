#pragma once

// Whether a plan keeps the rules that no cluster decides. Pure.

#include <string>

#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab::cli {

// On as many devices as the plan names. Fails with the broken rules, a line each, behind `path`.
[[nodiscard]] Status check_rules(const std::string& path, const Plan& plan, const Model& model);

}  // namespace trimtab::cli
