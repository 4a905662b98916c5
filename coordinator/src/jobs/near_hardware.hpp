#pragma once

// Known hardware that is near a job's own (schema/fingerprint.hpp, distance()): whose costs may stand for those that
// nobody has measured. Event loop's thread only.

#include <optional>

#include "schema/cluster.hpp"
#include "schema/cost_database.hpp"
#include "schema/job.hpp"
#include "schema/model.hpp"
#include "tuning/search/near_state.hpp"

namespace trimtab::coordinator {

struct NearCosts {
  NearFound found;
  tuner::NearHardware hardware;
};

// Of all near ones the nearest that has at least half as many of the costs that the job's plans need as the one that
// has most. `own`: of the job, on its nodes. Nothing where no near one has any, or the database cannot be read.
// `launches`: as of tuner::needed_costs().
[[nodiscard]] std::optional<NearCosts> find_near(const CostDatabase& costs, const Fingerprint& own, const Model& model,
                                                 const Cluster& cluster, const Knobs& knobs, bool launches = false);

// The same hardware, once it was chosen.
[[nodiscard]] std::optional<NearCosts> read_near(const CostDatabase& costs, const NearFound& found);

}  // namespace trimtab::coordinator
