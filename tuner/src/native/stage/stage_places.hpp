#pragma once

// Which stages lie alike, so that what one costs holds for the other: on as many devices, from the same device of a
// node on, over nodes of the same kinds, with the same links between them. A kind is all that a stage's price reads of
// a node. One per evaluator; not thread-safe.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "schema/cluster.hpp"

namespace trimtab::tuner {

class StagePlaces {
 public:
  explicit StagePlaces(const Cluster& cluster);

  // The first device of the first run of `devices` that lies like the run from `first_device` on.
  // REQUIRES: devices > 0, and the cluster has them all.
  [[nodiscard]] std::int32_t of(std::int32_t first_device, std::int32_t devices);

 private:
  void set_links(const Cluster& cluster);
  [[nodiscard]] std::int32_t link_of(std::int32_t a, std::int32_t b) const;
  [[nodiscard]] const std::vector<std::int32_t>& first_nodes(std::int32_t nodes);

  std::vector<std::int32_t> node_of_;   // by device
  std::vector<std::int32_t> begin_of_;  // by node: its first device
  std::vector<std::int32_t> kind_of_;   // by node: the first node like it
  bool alike_ = true;                   // all nodes, and the links between them
  // Of links that are given for two nodes, the first node first: the first link like it, counted from 1.
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> link_of_;
  // By count of nodes less one, by node: the first node that as many nodes of the same kinds in the same order, with
  // the same links, begin at.
  std::vector<std::vector<std::int32_t>> first_nodes_;
};

}  // namespace trimtab::tuner
