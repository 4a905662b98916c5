#pragma once

// What a search and a cost model answer, as texts for golden files. Nothing of them depends on a clock or a machine.

#include <string>

#include "schema/plan.hpp"
#include "tuner/cost_model.hpp"
#include "tuner/search.hpp"

namespace trimtab::tuner::golden {

// Nine digits, and 0 for what is nothing but rounding: a sum in another order gives the same.
[[nodiscard]] std::string number(double value);

// On one line, whatever differs from a plan's defaults.
[[nodiscard]] std::string plan_line(const Plan& plan);

// How the search ended, its bound, and the first three plans with their predictions in short.
[[nodiscard]] std::string outcome_text(const SearchOutcome& outcome);

// The search's own words about its best plan, without numbers that are nothing but rounding.
[[nodiscard]] std::string explained_text(const SearchOutcome& outcome, const Model& model);

// The whole prediction, what the model leaves out, and how much its timeline has.
[[nodiscard]] std::string prediction_text(const CostModel& model, const Plan& plan);

}  // namespace trimtab::tuner::golden
