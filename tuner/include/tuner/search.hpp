#pragma once

// Search for the fastest plan that fits. A strategy is one file in tuner/src/strategies; `strategies()` is the table.
// Deterministic for a seed and an evaluation budget. Pure: time budgets and cancellation come in as `stop`.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/job.hpp"
#include "schema/plan.hpp"
#include "schema/prediction.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

struct SearchOptions {
  std::string strategy = "aceso";  // or "exhaustive"
  std::uint64_t seed = 1;
  std::uint64_t max_evaluations = 0;  // 0 = unlimited
  std::function<bool()> stop;         // asked often; true ends the search with the best so far
  std::optional<Plan> start;          // the incumbent, for a warm start
  std::size_t plans = 10;             // how many to return
  double distinct = 0;  // of plans that differ in recompute alone, by less than this share of time, keep the fastest
  std::vector<std::string> excluded;  // semantic hashes of plans known to fail: never returned
};

// One iteration of a strategy, for --explain.
struct SearchStep {
  std::uint64_t evaluations = 0;
  std::int32_t stages = 0;
  std::string bottleneck;  // "stage 1 computation"
  std::string primitive;   // "dec-op# stage 1 -> stage 0, inc-rc stage 0"
  double before_ms = 0;
  double after_ms = 0;
};

struct SearchOutcome {
  SearchResult result;  // result.plans empty only when nothing fits: `infeasible` then says why and what would help
  std::vector<SearchStep> trace;
  std::string infeasible;
};

// Fails on an unknown strategy (naming the known ones) and on costs so incomplete that no plan can be priced (naming
// what is missing).
[[nodiscard]] Result<SearchOutcome> search(const CostModel& cost_model, const Knobs& knobs,
                                           const SearchOptions& options);

[[nodiscard]] std::vector<std::string_view> strategies();

// Words and numbers: the bottleneck that the best plan removed, what it trades, the runner-up and the gap.
[[nodiscard]] std::string explain(const SearchOutcome& outcome, const Model& model);

}  // namespace trimtab::tuner
