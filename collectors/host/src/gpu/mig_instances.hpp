#pragma once

// Multi-Instance GPU: whether a device is divided, and into what.

#include <string>
#include <string_view>

#include "gpu/nvml_library.hpp"
#include "host/gpu_inventory.hpp"

namespace trimtab::host {

void read_mig(const NvmlLibrary& library, nvml::Device device, GpuFacts& gpu, NvmlRefusals& refusals);

// "NVIDIA A100-SXM4-40GB MIG 1g.5gb" -> "1g.5gb"; empty when the name has no profile.
[[nodiscard]] std::string mig_profile_in_name(std::string_view name);
// "3g.40gb", or "1c.3g.40gb" of an instance that has one of three compute slices; memory in whole GB as NVIDIA rounds
// it.
[[nodiscard]] std::string mig_profile_of(const nvml::Attributes& attributes);

}  // namespace trimtab::host
