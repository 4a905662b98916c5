#pragma once

// The sources of a node, each in a file of its own. `root` as for host_sources().

#include <memory>
#include <string>

#include "host/source.hpp"

namespace trimtab::host {

[[nodiscard]] std::unique_ptr<Source> cpu_source(const std::string& root);         // /proc/stat
[[nodiscard]] std::unique_ptr<Source> cpu_clock_source(const std::string& root);   // clocks and throttling
[[nodiscard]] std::unique_ptr<Source> memory_source(const std::string& root);      // /proc/meminfo
[[nodiscard]] std::unique_ptr<Source> pressure_source(const std::string& root);    // /proc/pressure
[[nodiscard]] std::unique_ptr<Source> cgroup_source(const std::string& root);      // the control group of this process
[[nodiscard]] std::unique_ptr<Source> network_source(const std::string& root);     // /sys/class/net
[[nodiscard]] std::unique_ptr<Source> infiniband_source(const std::string& root);  // /sys/class/infiniband
[[nodiscard]] std::unique_ptr<Source> gpu_source(const std::string& nvml);         // NVML

}  // namespace trimtab::host
