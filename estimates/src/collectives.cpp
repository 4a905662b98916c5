#include "collectives.hpp"

#include <algorithm>
#include <cmath>

namespace trimtab::estimates {

Group Collectives::group(double devices, double stride) const {
  const double in_node = std::clamp(std::floor(machine_.devices_per_node / stride), 1.0, devices);
  return {devices, in_node, stride};
}

// What a device reaches to other nodes in a group over so many nodes: fabrics lose with their size.
double Collectives::network_of(double nodes, bool reduces) const {
  double lost = constants_.infiniband_loss;
  double share = constants_.network_share;
  switch (machine_.network.kind) {
    case NetworkKind::kInfiniBand:
    case NetworkKind::kOmniPath:
      break;
    case NetworkKind::kRoce:
      lost = constants_.roce_loss;
      break;
    case NetworkKind::kEfa:
      lost = 0;
      share = reduces ? constants_.efa_sum_share : constants_.efa_share;
      break;
  }
  return machine_.network.bandwidth * share * std::pow(std::max(nodes, 2.0) / 2, -lost);
}

double Collectives::bus_bandwidth(const Group& group, bool reduces) const {
  const Gpu& gpu = machine_.gpu;
  double inside = gpu.link_bandwidth > 0 ? gpu.link_bandwidth * constants_.nvlink_share
                                         : gpu.pcie_bandwidth * constants_.pcie_share;
  // Switches that add up (NVLink SHARP): Hopper and later, a whole node.
  const bool sums = switch_sums_ && reduces && gpu.linked >= 8 && gpu.generation >= Generation::kHopper &&
                    gpu.generation != Generation::kOther && group.in_node >= 4;
  if (sums) inside *= constants_.switch_gain;
  if (group.nodes() <= 1) return inside;
  return std::min(inside, group.in_node * network_of(group.nodes(), reduces));
}

double Collectives::latency(const Group& group, bool reduces) const {
  const double inside = constants_.collective_latency_s + constants_.nvlink_latency_s * (group.in_node - 1);
  if (group.nodes() <= 1) return inside;
  // In rings every step waits for the one that crosses the network. Sums go up and down trees.
  const double steps = group.devices - 1;
  if (machine_.network.kind == NetworkKind::kEfa) {
    return inside + steps * (reduces ? constants_.efa_sum_latency_s : constants_.efa_latency_s);
  }
  return inside + constants_.network_latency_s * (reduces ? 2 * std::log2(group.nodes()) : steps);
}

double Collectives::all_reduce(const Group& group, double bytes) const {
  if (group.devices <= 1 || bytes <= 0) return 0;
  return latency(group, true) + 2 * (group.devices - 1) / group.devices * bytes / bus_bandwidth(group, true);
}

double Collectives::all_gather(const Group& group, double bytes) const {
  if (group.devices <= 1 || bytes <= 0) return 0;
  return latency(group, false) + (group.devices - 1) / group.devices * bytes / bus_bandwidth(group, false);
}

double Collectives::transfer(double stride, double bytes) const {
  if (bytes <= 0) return 0;
  const Gpu& gpu = machine_.gpu;
  if (stride < machine_.devices_per_node) {
    const double inside = gpu.link_bandwidth > 0 ? gpu.link_bandwidth * constants_.nvlink_share
                                                 : gpu.pcie_bandwidth * constants_.pcie_share;
    return constants_.collective_latency_s + bytes / inside;
  }
  return constants_.collective_latency_s + constants_.network_latency_s + bytes / network_of(2, false);
}

}  // namespace trimtab::estimates
