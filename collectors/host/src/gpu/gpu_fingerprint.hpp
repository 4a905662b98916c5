#pragma once

// The layers of a GPU node's fingerprint. A key whose devices differ has all their values, so that two nodes with the
// same mixture are equal and a mixed node never equals a plain one.

#include "host/gpu_inventory.hpp"
#include "schema/fingerprint.hpp"

namespace trimtab::host {

// Machines of one kind differ by some megabytes of what the firmware keeps.
[[nodiscard]] std::string whole_gibibytes(Bytes bytes);

// device and software from what NVML says, fabric from it and from the network cards under `root`.
void describe_gpus(const GpuInventory& inventory, const std::string& root, Fingerprint& fingerprint);
// The little that the kernel driver says where NVML does not work.
void describe_unreadable_gpus(const std::string& root, Fingerprint& fingerprint);

}  // namespace trimtab::host
