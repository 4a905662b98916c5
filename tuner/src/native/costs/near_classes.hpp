#pragma once

// Which class of near costs a key is of, and what a benchmark has measured (tuner/near_costs.hpp). Pure.

#include <map>
#include <optional>

#include "native/costs/cost_identity.hpp"
#include "tuner/near_costs.hpp"

namespace trimtab::tuner {

// Nothing: never taken over.
[[nodiscard]] std::optional<NearClass> near_class_of(const CostKey& key);

// By what prices look for (identity()).
using CostByKey = std::map<CostKey, Cost>;
[[nodiscard]] CostByKey benchmarked(const std::vector<Cost>& costs);

}  // namespace trimtab::tuner
