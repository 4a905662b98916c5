#pragma once

// What is known of the GPUs without NVML: what the NVIDIA kernel driver says of itself in /proc/driver/nvidia and /dev,
// and whether CUDA's Multi-Process Service shares them.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab::host {

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ..." -> "550.54.15"; empty when there is none.
[[nodiscard]] std::string parse_driver_version(std::string_view text);
// "RmProfilingAdminOnly: 1" of /proc/driver/nvidia/params; nullopt where the driver has no such parameter.
[[nodiscard]] std::optional<bool> parse_admin_only(std::string_view text);

// Empty where no driver is loaded.
[[nodiscard]] std::string driver_version(const std::string& root);
[[nodiscard]] std::vector<std::string> driver_models(
    const std::string& root);  // of its GPUs, in the order of their buses
// "dev/nvidia0", ...: GPUs that this process may see.
[[nodiscard]] std::vector<std::string> gpu_device_files(const std::string& root);

struct MpsDaemon {
  std::string pipe_directory;  // that CUDA programs look into
  bool has_pipe = false;       // a control pipe stands there: new CUDA programs connect to it
  bool seen = false;           // a daemon runs, in this process namespace
  // Costs may be those of a shared GPU. A pipe that a dead daemon left behind counts, too: to keep costs apart without
  // need does less harm than to mix them.
  [[nodiscard]] bool on() const { return has_pipe || seen; }
};

[[nodiscard]] MpsDaemon find_mps(const std::string& root, const std::map<std::string, std::string>& environment);

}  // namespace trimtab::host
