#pragma once

// AMD's GPUs, as the kernel's driver (amdgpu, KFD) tells of them. Trimtab records nothing of what they do: they are
// known so that they can be named, and so that costs of a job on them are not taken for a processor's. Facts alone;
// nothing here needs a privilege, a library or the device. Any thread may call.

#include <string>
#include <vector>

#include "base/units.hpp"

namespace trimtab::host {

struct AmdGpu {
  std::string architecture;  // "gfx942"; empty where only the display driver tells of it
  Bytes memory = 0;          // of its own
};

// Those with 8 GiB of their own memory at least: what a desktop processor has beside its cores is no device of a job.
[[nodiscard]] std::vector<AmdGpu> find_amd_gpus(const std::string& root);
// "8 x AMD gfx942"; several kinds with a comma between. Empty where there are none.
[[nodiscard]] std::string amd_gpus_text(const std::vector<AmdGpu>& gpus);
// Programs reach them by /dev/kfd: it can be opened for reading and writing.
[[nodiscard]] bool can_open_amd_gpus(const std::string& root);

}  // namespace trimtab::host
