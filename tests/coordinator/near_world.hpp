#pragma once

// A model of four kinds of operators on two devices, and what its costs are on known and on near hardware.

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/fingerprint.hpp"
#include "schema/job.hpp"
#include "schema/model.hpp"
#include "tuner/needed_costs.hpp"

namespace trimtab::test {

inline Model near_model() {
  Model model;
  model.name = "small";
  model.global_batch = 64;
  for (int i = 0; i < 4; ++i) {
    Operator one;
    one.name = "op" + std::to_string(i);
    one.kind = "linear";
    one.layer = i;
    one.cost_key = "linear-" + std::to_string(i);
    one.parameter_bytes = 1000 * (i + 1);
    one.activation_bytes = 4000;
    one.output_bytes = 1000;
    one.forward_flops = 1000 * (i + 1);
    model.operators.push_back(one);
  }
  return model;
}

inline Cluster near_cluster() {
  Cluster cluster;
  cluster.nodes.push_back({"n0", "f", 2, 1 << 30, 0});
  cluster.links.push_back({"intra_node", std::nullopt, 0, 0});
  return cluster;
}

inline std::vector<CostKey> near_needed(bool launches = false) {
  return tuner::needed_costs(near_model(), near_cluster(), Knobs{}, {}, launches);
}

inline double near_value(const CostKey& key) {
  switch (key.kind) {
    case CostKind::kOperatorForward:
      return 1'000'000.0 * key.samples;
    case CostKind::kOperatorBackward:
      return 2'000'000.0 * key.samples;
    case CostKind::kOverlapComputation:
    case CostKind::kOverlapCommunication:
      return 1'000'000;
    case CostKind::kOperatorStoredBytes:
    case CostKind::kOperatorWorkingBytes:
    case CostKind::kProcessBytes:
      return 1000;
    default:
      return 50'000 + static_cast<double>(key.bytes);
  }
}

using NearChange = std::function<double(const CostKey&)>;

inline std::vector<Cost> near_costs(const std::vector<CostKey>& keys, const NearChange& change = {}) {
  std::vector<Cost> costs;
  for (const CostKey& key : keys) {
    Cost cost{key, {}};
    const double value = near_value(key) * (change ? change(key) : 1);
    for (const int off : {0, 1}) cost.statistics.add(std::llround(value) + off);
    costs.push_back(cost);
  }
  return costs;
}

// As the fake agent's, with a driver.
inline Fingerprint near_fingerprint(const std::string& driver) {
  Fingerprint fingerprint;
  fingerprint.device["cpu"] = "fake";
  if (!driver.empty()) fingerprint.software["driver"] = driver;
  return fingerprint;
}

}  // namespace trimtab::test
