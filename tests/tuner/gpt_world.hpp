#pragma once

// Models like GPT of any depth with the costs of an invented device, for tests and benchmarks of a real size.

#include <cstdint>
#include <string>
#include <vector>

#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/model.hpp"

namespace trimtab::tuner::test {

struct Workload {
  Model model;
  Cluster cluster;
  std::vector<Cost> costs;
};

// An embedding, attention and feedforward in turn, a head; one node with memory for about two thirds of what a pipeline
// would like. Measured on one rank, links included.
[[nodiscard]] Workload gpt(std::int32_t layers, std::int32_t devices, std::int32_t batch);

// A layer as 13 operators, after and before what is not a layer: 315 operators for 24 layers. Nodes of 8 devices with
// 29 GiB each, more where a node has more than 24 layers; operators measured on 1, 2, 4 and 8 ranks; where
// `measured_links` is false, links are known from the cluster alone.
[[nodiscard]] Workload gpt_operators(std::int32_t layers, std::int32_t nodes, std::int32_t batch, bool measured_links);

}  // namespace trimtab::tuner::test
