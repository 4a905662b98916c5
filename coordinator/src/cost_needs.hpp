#pragma once

// Which costs a job's plans need and nobody has, as benchmark requests in portions. Pure.

#include <string>
#include <vector>

#include "schema/cost.hpp"
#include "schema/job.hpp"
#include "tuning/event.hpp"

namespace trimtab::coordinator {

[[nodiscard]] CostsCounted count_costs(const std::string& model_json, const std::string& cluster_json,
                                       const Knobs& knobs, const std::vector<Cost>& known);

// Keys in portions of at most `items` benchmark items each; keys that one item fills stay together.
[[nodiscard]] std::vector<std::vector<CostKey>> portions(std::vector<CostKey> keys, std::size_t items);

}  // namespace trimtab::coordinator
