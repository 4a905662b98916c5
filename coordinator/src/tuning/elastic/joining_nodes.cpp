#include "tuning/elastic/joining_nodes.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/numbers.hpp"

namespace trimtab::coordinator {

namespace {

constexpr double kNoDifference = 0.1;  // of a speed: as much is noise

}  // namespace

NodesOffered describe_joining(const LargerPlacement& larger, const std::string& costs_hardware,
                              const std::vector<Probe>& probes) {
  NodesOffered offered;
  offered.nodes = larger.nodes;
  offered.cluster = larger.cluster;
  std::set<std::string> without;
  for (const NodeShare& share : larger.joined) without.insert(share.node);
  for (const Node& node : larger.cluster.nodes) {
    if (node.fingerprint != costs_hardware) without.insert(node.name);
  }
  for (std::size_t i = larger.nodes.size() - larger.joined.size(); i < larger.nodes.size(); ++i) {
    const NodeShare& share = larger.nodes[i];
    const bool alike = larger.cluster.nodes[i].fingerprint == costs_hardware;
    const auto speed = speed_beside_others(share.node, without, probes);
    offered.joined += (offered.joined.empty() ? "" : ", ") + share.node;
    if (!alike && !speed) {
      offered.refusal =
          "its hardware fingerprint is another one, and no probe has told how fast it is beside the others";
      continue;
    }
    if (!alike) offered.remark = "of another hardware fingerprint";
    if (!speed || std::abs(std::log(*speed)) < kNoDifference) continue;
    offered.remark += (offered.remark.empty() ? "" : ", ") + std::string("probed at ") + format_percent(*speed) +
                      " of the others' speed";
    for (std::int32_t rank = 0; rank < share.ranks && *speed < 1; ++rank) {
      offered.slow_devices[share.first_rank + rank] = *speed;
    }
  }
  return offered;
}

}  // namespace trimtab::coordinator
