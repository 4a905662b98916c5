#pragma once

// How GPUs are joined: NVLinks of one, PCI paths between two.

#include <vector>

#include "gpu/nvml_library.hpp"
#include "host/gpu_inventory.hpp"

namespace trimtab::host {

// The active links of a device.
[[nodiscard]] std::vector<NvLink> read_nvlinks(const NvmlLibrary& library, nvml::Device device, NvmlRefusals& refusals);
// Between each two of `devices`, which have these indices; null handles are passed over.
[[nodiscard]] std::vector<GpuPath> read_gpu_paths(const NvmlLibrary& library, const std::vector<nvml::Device>& devices);

}  // namespace trimtab::host
