#pragma once

// The analytic layers as a job's own documents: a model of one operator a layer, a cluster of one node, and costs as if
// they had been measured.

#include <vector>

#include "analytic_layers.hpp"
#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/model.hpp"

namespace trimtab::tuner::h3t::test {

struct Documents {
  Model model;
  Cluster cluster;
  std::vector<Cost> costs;
};

// `samples` on each device. Memory limits are the caller's to set.
[[nodiscard]] Documents analytic_documents(const Machine& machine, const TransformerSize& size, std::int32_t samples);

}  // namespace trimtab::tuner::h3t::test
