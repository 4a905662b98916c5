#pragma once

// A plan for people: one line, a table, a drawing, the difference of two. Pure.

#include <string>
#include <vector>

#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab::cli {

// "[0, 27)" and "[0, 3) [5, 9)"; "-" for none.
[[nodiscard]] std::string describe(const Range& range);
[[nodiscard]] std::string describe(const std::vector<Range>& ranges);
[[nodiscard]] std::string_view describe(ShardedLevel level);
[[nodiscard]] std::string_view describe(ScheduleKind kind);
[[nodiscard]] std::string_view describe(Transfers transfers);
// "0,1"
[[nodiscard]] std::string devices_of(const Stage& stage, std::string_view between);

// "microbatch 4; [0, 27) dp1 tp2 rc13 | [27, 55) dp2 optimizer/2": fits beside other columns.
[[nodiscard]] std::string one_line(const Plan& plan);
// What people are told of a plan wherever one is named: its framework's words (schema/plan_words.hpp) first, then the
// line above in brackets. Without words the line alone.
[[nodiscard]] std::string named_plan(const Plan& plan, const std::string& words);
// One row per segment. `model` may be null; it adds the operators' names.
[[nodiscard]] std::string plan_table(const Plan& plan, const Model* model);
// One bar per stage over all operators: '#' keeps its activations, 'r' recomputes them.
[[nodiscard]] std::string plan_drawing(const Plan& plan);
// Header, drawing and table together.
[[nodiscard]] std::string describe(const Plan& plan, const Model* model);

struct PlanChange {
  std::string field;  // "stages[1].segments[0].dp"
  std::string before;
  std::string after;
};
// Empty for plans that mean the same.
[[nodiscard]] std::vector<PlanChange> differences(const Plan& before, const Plan& after);

}  // namespace trimtab::cli
