#pragma once

// The papers' planners as seeds of `unified`. Each searches in a run of its own, as if it were alone with a seventh of
// the budget, and all that it finds is kept: so `unified` is no worse than any of them with a seventh of its budget, by
// construction. Two sevenths and what the planners leave are its own.

#include <optional>
#include <span>
#include <string_view>

#include "search/strategy.hpp"

namespace trimtab::tuner::unified {

struct Planner {
  Strategy strategy;
  std::int32_t most_devices = 0;  // beyond, it does not end when it is told to; 0 = any
};

// Quick ones first; of them the first refuse at once where they mean nothing.
[[nodiscard]] std::span<const Planner> planners();
inline constexpr std::size_t kRefusing = 2;
// REQUIRES: there is one of that name.
[[nodiscard]] const Planner& planner_named(std::string_view name);

inline constexpr int kParts = 7;                   // one for each planner, two for `unified` itself
inline constexpr double kOwnShare = 1.0 / kParts;  // before them; the other is for the end, and for what stops late

enum class Share : std::uint8_t { kPart, kRest };

struct Asked {
  StrategyEnd end;
  std::vector<SearchStep> trace;
  bool cut_short = false;  // it did not end by itself
};

// What it answers is in the run's shortlist. Where the budget has no shares it ends by itself, or with
// the run.
[[nodiscard]] Asked ask(SearchRun& run, const Planner& planner, const std::optional<Candidate>& start, Share share);

}  // namespace trimtab::tuner::unified
