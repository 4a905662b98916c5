#pragma once

// Which stages lie alike, so that what one costs holds for the other: on as many devices, from the same device of a
// node on, over nodes of the same kinds. A kind is all that a stage's price reads of a node. One per evaluator; not
// thread-safe.

#include <cstdint>
#include <vector>

#include "schema/cluster.hpp"

namespace trimtab::tuner {

class StagePlaces {
 public:
  explicit StagePlaces(const Cluster& cluster);

  // The first device of the first run of `devices` that lies like the run from `first_device` on.
  // REQUIRES: devices > 0, and the cluster has them all.
  [[nodiscard]] std::int32_t of(std::int32_t first_device, std::int32_t devices);
  // The same for what crosses links between those devices: where links are given for two nodes by name, `first_device`.
  [[nodiscard]] std::int32_t across(std::int32_t first_device, std::int32_t devices) {
    return named_links_ ? first_device : of(first_device, devices);
  }

 private:
  [[nodiscard]] const std::vector<std::int32_t>& first_nodes(std::int32_t nodes);

  std::vector<std::int32_t> node_of_;   // by device
  std::vector<std::int32_t> begin_of_;  // by node: its first device
  std::vector<std::int32_t> kind_of_;   // by node: the first node like it
  bool alike_ = true;                   // all nodes
  bool named_links_ = false;
  // By count of nodes less one, by node: the first node that as many nodes of the same kinds in the same order begin
  // at.
  std::vector<std::vector<std::int32_t>> first_nodes_;
};

}  // namespace trimtab::tuner
