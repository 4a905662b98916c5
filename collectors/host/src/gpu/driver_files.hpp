#pragma once

// What the NVIDIA kernel driver says of itself in /proc/driver/nvidia and /dev, without NVML.

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

}  // namespace trimtab::host
