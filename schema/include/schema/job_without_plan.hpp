#pragma once

// Jobs in mode observe that nothing is planned for, because nothing says what their model is or what it costs: they run
// as they were written. Pure.

#include <string_view>

#include "schema/job.hpp"

namespace trimtab {

// What stands for a plan's hash where a job has none: it runs as its user launched it, or wrote it.
inline constexpr std::string_view kAsLaunched = "as-launched";

// It is only observed, and a model, or what measures it, is missing.
[[nodiscard]] bool has_no_plan(const Job& job);
// Why such a job cannot run without a plan; ok when it can.
[[nodiscard]] Status check_without_plan(const Job& job);

}  // namespace trimtab
