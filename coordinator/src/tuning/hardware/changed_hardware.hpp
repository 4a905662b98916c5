#pragma once

// What hardware that has changed makes of the documents that plans are searched with: the cluster and the costs. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "tuning/hardware/link_changes.hpp"

namespace trimtab::coordinator {

// Devices that are slower than when the costs were measured; such a cluster is searched for plans that give them less.
void slow_devices(const std::map<std::int32_t, double>& shares, Cluster& cluster);

// The messages that a cost of communication sends one after the other: of a ring, or one.
[[nodiscard]] double messages_of(const CostKey& key);
// What a cost over such a link takes that took `ns` before.
[[nodiscard]] double changed_ns(const CostKey& key, double ns, const LinkChange& change);

// What such links make of the cluster's links and of the costs, as their bandwidth and latency were probed. Where a
// level has changed, so have the costs over it: a collective sends the messages of a ring one after the other, a
// transfer one. Where a pair has, the cluster says so between these two nodes, and only what goes over their link costs
// more. All other costs and links stand as they were. Returns how many costs are of levels that have changed.
std::int32_t change_links(const LinkChanges& changes, Cluster& cluster, std::vector<Cost>& costs);

}  // namespace trimtab::coordinator
