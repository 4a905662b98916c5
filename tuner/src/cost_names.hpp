#pragma once

// The names of costs that a plan uses and that are missing or estimated, each with the benchmark that would fill it.

#include <set>
#include <string>
#include <vector>

#include "schema/plan.hpp"
#include "stage_cost.hpp"

namespace trimtab::tuner {

struct CostNames {
  std::set<std::string> missing;
  std::set<std::string> estimated;
};

void name_stage_costs(const CostTable::Tables& tables, const StageShape& shape, CostNames& names);
void name_transfer_costs(const CostTable::Tables& tables, const std::vector<std::int32_t>& from,
                         const std::vector<std::int32_t>& to, double bytes_per_sample, std::int32_t microbatch,
                         CostNames& names);
void name_process_cost(const CostTable::Tables& tables, CostNames& names);
// What the native model does not price at all: tensor parallelism, sharding, switches, other schedules.
void name_unpriced_features(const Model& model, const Plan& plan, CostNames& names);

}  // namespace trimtab::tuner
