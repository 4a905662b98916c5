#pragma once

// The ports of InfiniBand and RoCE adapters under /sys/class/infiniband.

#include <optional>
#include <string>
#include <vector>

namespace trimtab::host {

struct InfinibandPort {
  std::string device;  // "mlx5_0"
  std::string port;    // "1"
  std::string path;    // "sys/class/infiniband/mlx5_0/ports/1/"
  bool active = false;
  std::string link_layer;                  // "InfiniBand" or "Ethernet"
  std::optional<double> bytes_per_second;  // of the link
};

[[nodiscard]] std::vector<InfinibandPort> infiniband_ports(const std::string& root);

}  // namespace trimtab::host
