#pragma once

// What the tuner is asked about a job. Costs and budgets are for whoever carries the search out to fill in. Pure.

#include <string>

#include "tuning/search/planning.hpp"

namespace trimtab::coordinator {

struct TuningState;

// About the job as it runs.
[[nodiscard]] SearchTask search_task(const TuningState& state);
// About the job on other nodes: what trials have taught of one cluster's costs holds on another; plans that ran there
// do not fit it.
[[nodiscard]] SearchTask task_on(const TuningState& state, const ClusterText& cluster);
// About the job on one node fewer, whose cluster says how fast the devices are.
[[nodiscard]] SearchTask spare_task(const TuningState& state);

// By what is predicted; null without candidates.
[[nodiscard]] const PricedPlan* fastest(const SearchReply& reply);

}  // namespace trimtab::coordinator
