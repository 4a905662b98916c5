#pragma once

// What quick probes of the hardware say of a drift: which device or link is not what it was, and which costs that makes
// wrong. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schema/cluster.hpp"
#include "schema/cost.hpp"

namespace trimtab::coordinator {

// One fixed piece of work, timed: a device computes (device >= 0), or a link moves bytes, inside of a node (peer empty)
// or between two.
struct Probe {
  std::int32_t device = -1;
  std::string node;
  std::string peer;
  std::string level;  // of a link: "intra_node", "inter_node"
  double ms = 0;
};

struct Finding {
  Probe probe;
  double share = 1;  // of its earlier speed
  [[nodiscard]] bool is_link() const { return probe.device < 0; }
};

// What has clearly changed, the largest change first. Probes of what only one side knows are left out.
[[nodiscard]] std::vector<Finding> diagnose(const std::vector<Probe>& before, const std::vector<Probe>& now);
// "the link of node n3 to n4 is at 38 % of its bandwidth"; the first few of many.
[[nodiscard]] std::string to_text(const std::vector<Finding>& findings);

// Of each level of links that has clearly changed: the slowest link's share, which decides a collective's time.
[[nodiscard]] std::map<std::string, double> link_shares(const std::vector<Probe>& before,
                                                        const std::vector<Probe>& now);
// The costs that such links make wrong, scaled by what was probed; all others stand as they were measured.
void slow_links(const std::map<std::string, double>& shares, Cluster& cluster, std::vector<Cost>& costs);

}  // namespace trimtab::coordinator
