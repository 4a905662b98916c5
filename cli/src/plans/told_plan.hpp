#pragma once

// A plan as the coordinator's documents carry it. Pure.

#include <optional>
#include <string>

#include "schema/api/fields.hpp"
#include "schema/plan.hpp"

namespace trimtab::cli {

struct ToldPlan {
  Plan plan;
  std::string words;  // its framework's (schema/plan_words.hpp)
};

// Nothing where none is carried. `path`: where in its document, for the error.
[[nodiscard]] Result<std::optional<ToldPlan>> told_plan(const api::Carried& carried, const std::string& path);
// What people are told of it; `otherwise` where there is none.
[[nodiscard]] std::string named_plan(const std::optional<ToldPlan>& told, const std::string& otherwise);

}  // namespace trimtab::cli
