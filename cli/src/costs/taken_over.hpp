#pragma once

// Costs that a job has taken over of near hardware (tuner/near_costs.hpp), as its cost database tells. The costs
// themselves are those of the near hardware, there.

#include <optional>
#include <string>
#include <vector>

#include "schema/api/report.hpp"
#include "schema/cost_database.hpp"

namespace trimtab::cli {

// By the latest job on this hardware. Nothing where none were, or where another release wrote what this one cannot
// read.
[[nodiscard]] std::optional<api::TakenOver> taken_over_there(const CostDatabase& database,
                                                             const std::string& fingerprint);

// Those costs, as the job priced its plans with them. None where the database has the near hardware's no more.
[[nodiscard]] Result<std::vector<Cost>> read_taken_over(const CostDatabase& database, const std::string& fingerprint);

}  // namespace trimtab::cli
