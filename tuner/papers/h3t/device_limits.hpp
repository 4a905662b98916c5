#pragma once

// What one rank may use: the least of its nodes. Pure.

#include "schema/cluster.hpp"
#include "solvers/h3t/problem.hpp"

namespace trimtab::tuner::h3t {

struct DeviceLimits {
  Bytes device = kUnlimited;
  Bytes host = kUnlimited;  // the node's, shared evenly by those of its devices that the job has
};

// Of the first `devices` devices. A node that says nothing limits nothing.
[[nodiscard]] inline DeviceLimits limits_of(const Cluster& cluster, std::int32_t devices) {
  DeviceLimits limits;
  for (const Node& node : cluster.nodes) {
    const std::int32_t used = std::min(node.devices, devices);
    if (used <= 0) break;
    if (node.memory_bytes > 0) limits.device = std::min(limits.device, node.memory_bytes);
    if (node.host_memory_bytes > 0) limits.host = std::min(limits.host, node.host_memory_bytes / used);
    devices -= used;
  }
  return limits;
}

}  // namespace trimtab::tuner::h3t
