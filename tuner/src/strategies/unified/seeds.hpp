#pragma once

// Where `unified` starts under a cost model whose iteration is more than its stages: even plans over uniform groups of
// devices (all there is on clusters of thousands) and the plans of `aceso`.

#include <optional>

#include "strategies/strategy.hpp"

namespace trimtab::tuner::unified {

// Every count of stages that divides the devices, every microbatch and split: cuts balanced by computing time. The most
// promising are priced; on clusters that are too large for the solver the best get splits and cuts stage by stage.
void price_even_plans(SearchRun& run);

// On clusters of moderate size the search of `aceso`, cut short for long models.
void alleviate(SearchRun& run, const std::optional<Candidate>& start);

}  // namespace trimtab::tuner::unified
