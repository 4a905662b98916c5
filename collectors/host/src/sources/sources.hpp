#pragma once

// What the sources of this node read, and the one list of names of what they measure. docs/metrics.md says the same for
// people. `root` as for host_sources().

#include <memory>
#include <string>

#include "host/source.hpp"

namespace trimtab::host {

[[nodiscard]] Result<Samples> read_cpu(const std::string& root);         // /proc/stat
[[nodiscard]] Result<Samples> read_cpu_clock(const std::string& root);   // clocks and throttling
[[nodiscard]] Result<Samples> read_memory(const std::string& root);      // /proc/meminfo
[[nodiscard]] Result<Samples> read_pressure(const std::string& root);    // /proc/pressure
[[nodiscard]] Result<Samples> read_cgroup(const std::string& root);      // the control group of this process
[[nodiscard]] Result<Samples> read_network(const std::string& root);     // /sys/class/net
[[nodiscard]] Result<Samples> read_infiniband(const std::string& root);  // /sys/class/infiniband
[[nodiscard]] Result<Samples> read_pci(const std::string& root);         // /sys/bus/pci/devices: GPUs and network cards
[[nodiscard]] std::unique_ptr<Source> gpu_source(const std::string& nvml);

inline constexpr Measure kSourceUp{"trimtab_host_source_up", "1 while a source's last read was good."};
inline constexpr Measure kSourceStalled{"trimtab_host_source_stalled", "1 while a source's read does not come back."};
inline constexpr Measure kSourceFailures{"trimtab_host_source_failures_total", "Reads of a source that failed.", true};
inline constexpr Measure kSourceReadSeconds{"trimtab_host_source_read_seconds", "How long a source's last read took."};

inline constexpr Measure kCpuSeconds{"trimtab_host_cpu_seconds_total", "Time of all CPUs by mode.", true};
inline constexpr Measure kContextSwitches{"trimtab_host_context_switches_total", "Context switches of all CPUs.", true};
inline constexpr Measure kProcessesRunning{"trimtab_host_processes_running", "Processes that run or could."};
inline constexpr Measure kProcessesBlocked{"trimtab_host_processes_blocked", "Processes that wait for storage."};
inline constexpr Measure kCpuClock{"trimtab_host_cpu_clock_hertz", "Clock of the sampled CPUs: least, mean, most."};
inline constexpr Measure kCpuThrottles{"trimtab_host_cpu_thermal_throttles_total",
                                       "Times that cores and packages were throttled for heat.", true};

inline constexpr Measure kMemoryTotal{"trimtab_host_memory_total_bytes", "Memory of the machine."};
inline constexpr Measure kMemoryAvailable{"trimtab_host_memory_available_bytes",
                                          "Memory that programs can have without swapping."};
inline constexpr Measure kMemoryCached{"trimtab_host_memory_cached_bytes", "Memory that holds files."};
inline constexpr Measure kMemoryShared{"trimtab_host_memory_shared_bytes", "Shared memory and tmpfs, rings included."};
inline constexpr Measure kSwapTotal{"trimtab_host_swap_total_bytes", "Swap space."};
inline constexpr Measure kSwapFree{"trimtab_host_swap_free_bytes", "Swap space that is free."};
inline constexpr Measure kPressure{"trimtab_host_pressure_seconds_total",
                                   "Time in which some or all tasks waited for a resource.", true};

inline constexpr Measure kCgroupMemory{"trimtab_host_cgroup_memory_bytes", "Memory of the agent's control group."};
inline constexpr Measure kCgroupMemoryLimit{"trimtab_host_cgroup_memory_limit_bytes",
                                            "The tightest limit around the agent."};
inline constexpr Measure kCgroupCpuLimit{"trimtab_host_cgroup_limit_cpus", "CPUs that the agent's groups may use."};
inline constexpr Measure kCgroupCpu{"trimtab_host_cgroup_cpu_seconds_total", "CPU time of the agent's control group.",
                                    true};
inline constexpr Measure kCgroupThrottled{"trimtab_host_cgroup_throttled_seconds_total",
                                          "Time in which the group's quota was used up.", true};

inline constexpr Measure kNetworkUp{"trimtab_network_up", "1 while an interface's operstate is up."};
inline constexpr Measure kNetworkSpeed{"trimtab_network_speed_bytes_per_second", "Link speed of an interface."};
inline constexpr Measure kNetworkBytes{"trimtab_network_bytes_total", "Bytes through an interface.", true};
inline constexpr Measure kNetworkPackets{"trimtab_network_packets_total", "Packets through an interface.", true};
inline constexpr Measure kNetworkErrors{"trimtab_network_errors_total", "Packets that were damaged.", true};
inline constexpr Measure kNetworkDrops{"trimtab_network_drops_total", "Packets that were dropped.", true};
inline constexpr Measure kNetworkLeftOut{"trimtab_network_interfaces_left_out", "Interfaces beyond the bound of 64."};

inline constexpr Measure kInfinibandUp{"trimtab_infiniband_up", "1 while a port is active."};
inline constexpr Measure kInfinibandRate{"trimtab_infiniband_rate_bytes_per_second", "Link rate of a port."};
inline constexpr Measure kInfinibandBytes{"trimtab_infiniband_bytes_total", "Bytes through a port.", true};
inline constexpr Measure kInfinibandPackets{"trimtab_infiniband_packets_total", "Packets through a port.", true};
inline constexpr Measure kInfinibandEvents{"trimtab_infiniband_events_total",
                                           "Waits, errors and congestion of a port, by the kernel's counter.", true};

inline constexpr Measure kPciLanes{"trimtab_pci_lanes", "Lanes of a PCI device's link now."};
inline constexpr Measure kPciLanesMax{"trimtab_pci_lanes_max", "The most that the device and its slot have."};
inline constexpr Measure kPciSpeed{"trimtab_pci_transfers_per_second", "Speed of a lane now. It may fall at rest."};
inline constexpr Measure kPciSpeedMax{"trimtab_pci_transfers_per_second_max",
                                      "The most that the device and its slot have."};
inline constexpr Measure kPciErrors{"trimtab_pci_errors_total", "Errors of the link that the device has reported.",
                                    true};

inline constexpr Measure kDeviceInfo{"trimtab_device_info", "1; the labels name the GPU."};
inline constexpr Measure kDeviceUp{"trimtab_device_up", "1 while the GPU answers."};
inline constexpr Measure kDeviceClock{"trimtab_device_clock_hertz", "Clock of a GPU's domain now."};
inline constexpr Measure kDeviceClockMax{"trimtab_device_clock_max_hertz", "The most that the domain's clock can be."};
inline constexpr Measure kDeviceThrottled{"trimtab_device_throttled", "1 while the clock is held down for a reason."};
inline constexpr Measure kDevicePower{"trimtab_device_power_watts", "Power that the GPU takes."};
inline constexpr Measure kDevicePowerLimit{"trimtab_device_power_limit_watts", "Power cap in force."};
inline constexpr Measure kDeviceEnergy{"trimtab_device_energy_joules_total", "Energy since the driver was loaded.",
                                       true};
inline constexpr Measure kDeviceTemperature{"trimtab_device_temperature_celsius", "Temperature of the die."};
inline constexpr Measure kDeviceMemoryTotal{"trimtab_device_memory_total_bytes", "Memory of the GPU."};
inline constexpr Measure kDeviceMemoryUsed{"trimtab_device_memory_used_bytes", "Memory in use, reserved included."};
inline constexpr Measure kDeviceBusy{"trimtab_device_busy_ratio",
                                     "Share of the driver's last period in which kernels ran or memory was used."};
inline constexpr Measure kDeviceEcc{"trimtab_device_ecc_errors_total", "Memory errors since the driver was loaded.",
                                    true};
inline constexpr Measure kDevicePcieGeneration{"trimtab_device_pcie_generation", "PCIe generation of the link now."};
inline constexpr Measure kDevicePcieWidth{"trimtab_device_pcie_lanes", "PCIe lanes of the link now."};
inline constexpr Measure kDevicePcieGenerationMax{"trimtab_device_pcie_generation_max",
                                                  "The most that device and slot can do."};
inline constexpr Measure kDevicePcieWidthMax{"trimtab_device_pcie_lanes_max", "The most that device and slot have."};
inline constexpr Measure kDevicePcieReplays{"trimtab_device_pcie_replays_total", "Packets that were sent again.", true};
inline constexpr Measure kDevicePcieTraffic{"trimtab_device_pcie_bytes_per_second",
                                            "Bytes over the link, within 20 ms."};
inline constexpr Measure kDeviceNvLinkUp{"trimtab_device_nvlink_up",
                                         "1 while an NVLink is active; of links that were once."};
inline constexpr Measure kDeviceNvLinkErrors{"trimtab_device_nvlink_errors_total", "Errors of an NVLink.", true};
inline constexpr Measure kDeviceNvLinks{"trimtab_device_nvlinks_active", "NVLinks that are up."};
inline constexpr Measure kDeviceMigInstances{"trimtab_device_mig_instances", "MIG instances; only where MIG is on."};

}  // namespace trimtab::host
