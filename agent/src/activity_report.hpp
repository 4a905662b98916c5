#pragma once

// What a rank does, on its way out: to the coordinator and as metrics. Pure.

#include <map>
#include <vector>

#include "metrics.hpp"
#include "rank_activity.hpp"
#include "rank_identity.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

[[nodiscard]] wire::RankActivity to_wire(const RankIdentity& id, const RankActivity& activity);

// By job, variant and rank; `share` is one of five words. There are as many series as ranks run, not as were ever seen.
void add_activity_metrics(const std::map<RankIdentity, RankActivity>& activities, std::vector<Metric>& into);

}  // namespace trimtab::agent
