#pragma once

// Devices that are slower than those which the costs were measured on. Pure.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schema/cluster.hpp"
#include "tuner/calibration.hpp"

namespace trimtab::tuner {

// How many times as long each device computes; empty where all are as fast as the costs say. A device that is faster
// counts as one that is not: lower bounds are made of the costs.
[[nodiscard]] inline std::vector<double> slowness_of_devices(const Cluster& cluster) {
  const bool even = std::all_of(cluster.nodes.begin(), cluster.nodes.end(), [](const Node& node) {
    return std::all_of(node.speeds.begin(), node.speeds.end(), [](double speed) { return speed >= 1; });
  });
  std::vector<double> slowness;
  for (const Node& node : cluster.nodes) {
    for (std::int32_t i = 0; i < node.devices && !even; ++i) slowness.push_back(std::max(1.0, 1 / node.speed_of(i)));
  }
  return slowness;
}

// What a stage's price takes of a calibration, as it holds on these devices: the slowest decides how long a stage
// computes. The operators' own factors are in the cost table already, and are not copied.
[[nodiscard]] inline Calibration slowed(const Calibration& calibration, const std::vector<double>& slowness,
                                        const std::int32_t* devices, std::int32_t count) {
  double slowest = 1;
  for (std::int32_t i = 0; i < count && !slowness.empty(); ++i) slowest = std::max(slowest, slowness[devices[i]]);
  Calibration result;
  result.computation = {calibration.computation.value * slowest, calibration.computation.log_sigma};
  result.communication = calibration.communication;
  result.classes = calibration.classes;
  result.overlap = calibration.overlap;
  return result;
}

}  // namespace trimtab::tuner
