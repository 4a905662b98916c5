#include "joining_nodes.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/numbers.hpp"
#include "tuning/comparison.hpp"

namespace trimtab::coordinator {

namespace {

constexpr double kNoDifference = 0.1;  // of a speed: as much is noise

// Of work that says how fast a device computes.
bool tells_speed(const Probe& probe) {
  return probe.device >= 0 && probe.ms > 0 && (probe.work == "computation" || probe.work == "clock");
}

double mean_ms(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// The share of the others' speed that a node's devices have; nothing where either was not probed.
std::optional<double> speed_of(const std::string& node, const std::set<std::string>& joined,
                               const std::vector<Probe>& probes) {
  std::vector<double> here;
  std::vector<double> present;
  for (const Probe& one : probes) {
    if (!tells_speed(one)) continue;
    if (one.node == node) here.push_back(one.ms);
    if (!joined.contains(one.node)) present.push_back(one.ms);
  }
  if (here.empty() || present.empty()) return std::nullopt;
  return median(present) / mean_ms(here);
}

}  // namespace

NodesOffered describe_joining(const LargerPlacement& larger, const std::vector<Probe>& probes) {
  NodesOffered offered;
  offered.nodes = larger.nodes;
  offered.cluster_json = to_json(larger.cluster);
  std::set<std::string> joined;
  for (const NodeShare& share : larger.joined) joined.insert(share.node);
  const std::string& known = larger.cluster.nodes.front().fingerprint;
  for (std::size_t i = larger.nodes.size() - larger.joined.size(); i < larger.nodes.size(); ++i) {
    const NodeShare& share = larger.nodes[i];
    const bool alike = larger.cluster.nodes[i].fingerprint == known;
    const auto speed = speed_of(share.node, joined, probes);
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
