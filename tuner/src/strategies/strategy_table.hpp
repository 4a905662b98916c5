#pragma once

// The table of strategies.

#include <optional>
#include <span>

#include "search/strategy.hpp"

namespace trimtab::tuner {

StrategyEnd run_aceso(SearchRun& run, const std::optional<Candidate>& start);
StrategyEnd run_autopipe(SearchRun& run, const std::optional<Candidate>& start);
StrategyEnd run_unified(SearchRun& run, const std::optional<Candidate>& start);
StrategyEnd run_galvatron(SearchRun& run, const std::optional<Candidate>& start);
StrategyEnd run_h3t(SearchRun& run, const std::optional<Candidate>& start);
StrategyEnd run_exhaustive(SearchRun& run, const std::optional<Candidate>& start);
StrategyEnd run_target(SearchRun& run, const std::optional<Candidate>& start);
StrategyEnd run_oases(SearchRun& run, const std::optional<Candidate>& start);
// Of spaces of interleaved plans, whatever strategy was asked for: every plan for `exhaustive`, and where there are
// few.
StrategyEnd run_interleaved(SearchRun& run);

[[nodiscard]] std::span<const Strategy> strategy_table();

}  // namespace trimtab::tuner
