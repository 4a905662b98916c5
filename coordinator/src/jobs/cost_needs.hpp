#pragma once

// Which costs a job's plans need and nobody has, as benchmark requests in portions. Pure.

#include <map>
#include <string>
#include <vector>

#include "schema/cost.hpp"
#include "schema/job.hpp"
#include "tuning/event.hpp"

namespace trimtab::coordinator {

// `elsewhere`: what is known of the cluster's other fingerprints (mixed_hardware.hpp).
[[nodiscard]] CostsCounted count_costs(const std::string& model_json, const std::string& cluster_json,
                                       const Knobs& knobs, std::vector<Cost> known,
                                       const std::map<std::string, std::vector<Cost>>& elsewhere = {});

// Keys in portions of at most `items` benchmark items each; keys that one item fills stay together.
[[nodiscard]] std::vector<std::vector<CostKey>> portions(std::vector<CostKey> keys, std::size_t items);

}  // namespace trimtab::coordinator
