#pragma once

// Jobs of which nothing says what their model is or what it costs. No search plans for them: in mode observe they run
// as they were written, else knobs of their own are tried. Pure.

#include <string_view>

#include "schema/job.hpp"
#include "schema/plan.hpp"

namespace trimtab {

// What stands for a plan's hash where a job has none: it runs as its user launched it, or wrote it.
inline constexpr std::string_view kAsLaunched = "as-launched";

// It is only observed, and a model, or what measures it, is missing.
[[nodiscard]] bool has_no_plan(const Job& job);
// It has knobs of its own to be tried, and a model, or what measures it, is missing.
[[nodiscard]] bool tries_own_knobs_alone(const Job& job);
// Why either cannot run without a plan; ok when it can.
[[nodiscard]] Status check_without_plan(const Job& job);

// What such a job's ranks run, so that its trials have plans: it says its own settings, and of a layout nothing (one
// stage of all ranks, of a model called kAsLaunched).
[[nodiscard]] Plan plan_as_launched(std::int32_t ranks, OwnSettings own);
[[nodiscard]] bool is_as_launched(const Plan& plan);

}  // namespace trimtab
