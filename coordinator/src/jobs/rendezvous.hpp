#pragma once

// Where a launch's ranks meet. Those on one node have a file of their agent's, which is asked for by a mere name; those
// on several a TCP address on the node of rank 0, for nodes need not share a disk. Each name has a port of its own out
// of a range, so that neither an earlier launch nor, mostly, another job is in the way. Pure.

#include <optional>
#include <string>
#include <vector>

#include "agents/membership.hpp"
#include "coordinator/settings.hpp"
#include "tuning/event.hpp"

namespace trimtab::coordinator {

// "7-launch-3" or "tcp://10.0.0.5:21234"; nothing: the node of rank 0 has not been heard of, and where it is is not
// known. `name`: unique in this coordinator. REQUIRES: nodes is not empty.
[[nodiscard]] std::optional<std::string> rendezvous(const std::string& name, const std::vector<NodeShare>& nodes,
                                                    const Membership& members, const PortRange& ports);

}  // namespace trimtab::coordinator
