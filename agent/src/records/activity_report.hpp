#pragma once

// What a rank does, on its way out: to the coordinator and as metrics. Pure.

#include "net/metric_text.hpp"
#include "ranks/rank_identity.hpp"
#include "records/activity_fold.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

[[nodiscard]] wire::RankActivity to_wire(const RankIdentity& id, const RankActivity& activity);

// By job, variant and rank; `share` is one of five words. There are as many series as ranks run, not as were ever seen.
// How long steps took, as ranks say.
void add_step_times(const std::map<RankIdentity, net::Histogram>& times, std::vector<net::Metric>& into);
void add_activity_metrics(const std::map<RankIdentity, RankActivity>& activities, std::vector<net::Metric>& into);

}  // namespace trimtab::agent
