#pragma once

// The plan that a job of a target begins with where nobody names one. Pure; any thread.

#include <string_view>

#include "schema/cluster.hpp"
#include "schema/job.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner {

// The usual guess (tuner/validate.hpp) with nothing recomputed. Where the target does not run that: replicas on all
// devices, for `fsdp` with parameters sharded if the job may shard. Empty target: the usual guess. Where no plan uses
// every device, one that validate() or unhonoured() says that of.
[[nodiscard]] Plan first_plan(const Model& model, const Cluster& cluster, const Knobs& knobs, std::string_view target);

}  // namespace trimtab::tuner
