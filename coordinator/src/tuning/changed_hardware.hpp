#pragma once

// What hardware that has changed makes of the documents that plans are searched with: the cluster and the costs. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "tuning/diagnosis.hpp"

namespace trimtab::coordinator {

// Devices that are slower than when the costs were measured; such a cluster is searched for plans that give them less.
void slow_devices(const std::map<std::int32_t, double>& shares, Cluster& cluster);

// The costs that such links make wrong, as their bandwidth and latency were probed: a collective sends the messages of
// a ring one after the other, a transfer one. All others stand as they were measured. Returns how many those are.
std::int32_t change_links(const std::map<std::string, LinkChange>& changes, Cluster& cluster, std::vector<Cost>& costs);

}  // namespace trimtab::coordinator
