#pragma once

// A job's own knobs in what a search answers: beside the plans that have a price, or alone where nothing has. Pure.

#include <string>
#include <vector>

#include "base/result.hpp"
#include "schema/plan.hpp"
#include "tuning/search/planning.hpp"

namespace trimtab::coordinator {

[[nodiscard]] Plan without_own(Plan plan);
// A plan's words with those of its own settings behind them.
[[nodiscard]] std::string words_with_own(const std::string& words, const OwnSettings& own);

// The incumbent under other settings, put among the candidates so that the most promising come first. `words`: of the
// incumbent without its own settings. None before the incumbent is measured.
[[nodiscard]] Status add_own_plans(const SearchTask& task, const Plan& incumbent, const std::string& words,
                                   std::vector<PricedPlan>& candidates);

// The answer for a job of which nothing is known but its own knobs. What has run has no price; what is to be tried is
// expected to take the incumbent's measured time, changed by what trials have shown of its values.
[[nodiscard]] Result<SearchReply> plan_own_alone(const SearchTask& task);

}  // namespace trimtab::coordinator
