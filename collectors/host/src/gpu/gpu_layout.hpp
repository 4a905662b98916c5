#pragma once

// How GPUs are joined (NVLinks of one, PCI paths between two), and into what Multi-Instance GPU divides one.

#include <string>
#include <string_view>
#include <vector>

#include "gpu/nvml_library.hpp"
#include "host/gpu_inventory.hpp"

namespace trimtab::host {

// The active links of a device.
[[nodiscard]] std::vector<NvLink> read_nvlinks(const NvmlLibrary& library, nvml::Device device, NvmlRefusals& refusals);
// Between each two of `devices`, which have these indices; null handles are passed over.
[[nodiscard]] std::vector<GpuPath> read_gpu_paths(const NvmlLibrary& library, const std::vector<nvml::Device>& devices);

void read_mig(const NvmlLibrary& library, nvml::Device device, GpuFacts& gpu, NvmlRefusals& refusals);

// "NVIDIA A100-SXM4-40GB MIG 1g.5gb" -> "1g.5gb"; empty when the name has no profile.
[[nodiscard]] std::string mig_profile_in_name(std::string_view name);
// "3g.40gb", or "1c.3g.40gb" of an instance that has one of three compute slices; memory in whole GB as NVIDIA rounds
// it.
[[nodiscard]] std::string mig_profile_of(const nvml::Attributes& attributes);

}  // namespace trimtab::host
