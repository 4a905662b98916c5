#pragma once

// The cluster: nodes, their devices and memory, links. Document: cluster.json. Devices are numbered in document order,
// node after node. Plain values.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"

namespace trimtab {

struct Node {
  std::string name;
  std::string fingerprint;
  std::int32_t devices = 1;
  Bytes memory_bytes = 0;  // per device; what a rank may use, the job's limit included
  Bytes host_memory_bytes = 0;
  // By device: a share of the speed that the fingerprint's costs were measured at. Empty, or past the end: 1.
  std::vector<double> speeds = {};

  [[nodiscard]] double speed_of(std::int32_t device_of_node) const {
    return std::cmp_less(device_of_node, speeds.size()) ? speeds[static_cast<std::size_t>(device_of_node)] : 1;
  }
};

struct Link {
  std::string level;  // "intra_node", "inter_node", or empty where `between` is given
  // Of two nodes, in either order, or of one node twice: the links inside of it. It overrides the level for them.
  std::optional<std::pair<std::string, std::string>> between;
  double bandwidth_bytes_per_s = 0;  // 0 = unknown: only measured costs count
  double latency_us = 0;
  // Of `between`, beside the links that the level's costs were measured on: the share of their bandwidth (0 = not said:
  // as the two bandwidths are to each other), and what a message takes longer on its way, whatever its size (< 0:
  // shorter).
  double share = 0;
  double added_latency_us = 0;
};

struct Cluster {
  std::vector<Node> nodes;  // at least one
  std::vector<Link> links;

  [[nodiscard]] std::int32_t devices() const;
  // REQUIRES: 0 <= device < devices().
  [[nodiscard]] std::int32_t node_of(std::int32_t device) const;
};

[[nodiscard]] Result<Cluster> parse_cluster(std::string_view json, std::string_view source);
[[nodiscard]] std::string to_json(const Cluster& cluster);

}  // namespace trimtab
