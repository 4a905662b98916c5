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

[[nodiscard]] std::span<const Strategy> strategy_table();

}  // namespace trimtab::tuner
