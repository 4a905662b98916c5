#pragma once

// What joins this machine to others: the ports of InfiniBand and RoCE adapters, and the network interfaces that matter.
// Those have hardware behind them, or are what a container has instead.

#include <optional>
#include <string>
#include <vector>

namespace trimtab::host {

// Of /sys/class/infiniband.
struct InfinibandPort {
  std::string device;  // "mlx5_0"
  std::string port;    // "1"
  std::string path;    // "sys/class/infiniband/mlx5_0/ports/1/"
  bool active = false;
  std::string link_layer;                  // "InfiniBand" or "Ethernet"
  std::optional<double> bytes_per_second;  // of the link
};

[[nodiscard]] std::vector<InfinibandPort> infiniband_ports(const std::string& root);

// Names of /sys/class/net without loopback and the host's ends of containers; hardware first, then by name.
[[nodiscard]] std::vector<std::string> network_interfaces(const std::string& root);
[[nodiscard]] bool is_hardware(const std::string& root, const std::string& interface);

}  // namespace trimtab::host
