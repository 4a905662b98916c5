#pragma once

#include <string>

#include "schema/cluster.hpp"

namespace trimtab::coordinator::test {

// Nodes n0, n1, … of one hardware and one device each.
inline Cluster cluster_of(int nodes) {
  Cluster cluster;
  for (int i = 0; i < nodes; ++i) cluster.nodes.push_back({"n" + std::to_string(i), "f", 1, 0, 0});
  return cluster;
}

}  // namespace trimtab::coordinator::test
