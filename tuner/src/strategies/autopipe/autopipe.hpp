#pragma once

// AutoPipe's planner over every shape of the space: the same devices and split in each stage, cuts at any place the
// model allows. Under a model that prices a step by AutoPipe's recurrences the answer is optimal or carries its gap;
// under another model the recurrences, with eager transfers and that model's stages, choose the cuts, and the model
// prices them and their neighbours.

#include <optional>

#include "schema/plan.hpp"
#include "search/strategy.hpp"

namespace trimtab::tuner::autopipe {

// `own`: how transfers are in the model's own recurrences; none where it has no such.
[[nodiscard]] StrategyEnd search(SearchRun& run, std::optional<Transfers> own);

}  // namespace trimtab::tuner::autopipe
