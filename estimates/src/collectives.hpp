#pragma once

// Seconds of collectives over groups of a machine's devices. A group is told by how many devices it has in each node
// and over how many nodes it goes. Large messages go in rings: the slowest link on the ring decides. Groups that work
// at the same time share a node's network. Pure.

#include "estimates/constants.hpp"
#include "estimates/hardware.hpp"

namespace trimtab::estimates {

struct Group {
  double devices = 1;
  double in_node = 1;  // of them, in each node
  double apart = 1;    // devices between two neighbours of the group, in the order of ranks
  [[nodiscard]] double nodes() const { return devices / in_node; }
};

class Collectives {
 public:
  // `switch_sums`: switches that can add up do.
  Collectives(const Machine& machine, const Constants& constants, bool switch_sums = true)
      : machine_(machine), constants_(constants), switch_sums_(switch_sums) {}

  // Devices `stride` apart in the order of ranks: tensor-parallel groups have stride 1.
  [[nodiscard]] Group group(double devices, double stride) const;

  // `bytes` is the whole tensor that each device has in the end (gathered) or in the beginning (scattered, reduced).
  [[nodiscard]] double all_reduce(const Group& group, double bytes) const;
  [[nodiscard]] double all_gather(const Group& group, double bytes) const;  // and reduce_scatter
  // From one device to the one `stride` ranks away, while all others of the node do the same.
  [[nodiscard]] double transfer(double stride, double bytes) const;

 private:
  [[nodiscard]] double bus_bandwidth(const Group& group, bool reduces) const;
  [[nodiscard]] double latency(const Group& group, bool reduces) const;
  [[nodiscard]] double network_of(double nodes, bool reduces) const;

  const Machine& machine_;
  const Constants& constants_;
  bool switch_sums_;
};

}  // namespace trimtab::estimates
