#pragma once

// Which network interfaces matter: those with hardware behind them, and what a container has instead.

#include <string>
#include <vector>

namespace trimtab::host {

// Names of /sys/class/net without loopback and the host's ends of containers; hardware first, then by name.
[[nodiscard]] std::vector<std::string> network_interfaces(const std::string& root);
[[nodiscard]] bool is_hardware(const std::string& root, const std::string& interface);

}  // namespace trimtab::host
