#pragma once

// The NVIDIA GPUs of this node and what of them changes costs, as NVML says. Nothing is linked: libnvidia-ml.so.1 is
// opened at run time, and what an older driver lacks or a device does not support is missing (nullopt), not an error.
// Nothing here needs a privilege.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/units.hpp"

namespace trimtab::host {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

struct MigInstance {
  std::string uuid;
  std::string profile;  // "3g.40gb", "1c.3g.40gb"
  std::optional<std::int64_t> multiprocessors;
  std::optional<Bytes> memory;
};

enum class NvLinkEnd { kGpu, kSwitch, kOther };

// An active NVLink.
struct NvLink {
  std::string version;  // "4.0"; empty when not told
  NvLinkEnd end = NvLinkEnd::kOther;
  std::string remote_bus_id;  // of a GPU; empty when not told
  unsigned number = 0;        // of the GPU's links
};

struct GpuFacts {
  std::int64_t index = 0;  // NVML's: by PCI bus id
  std::string name;
  std::string uuid;
  std::string bus_id;                           // "00000000:17:00.0"
  std::string compute_capability;               // "9.0"
  std::optional<Bytes> memory;                  // of the whole device
  std::optional<std::int64_t> multiprocessors;  // of the whole device; unknown where MIG is on
  std::optional<std::int64_t> sm_clock_max_mhz;
  std::optional<std::int64_t> memory_clock_max_mhz;
  std::optional<std::int64_t> application_clock_mhz;  // of the SMs, where one is set
  std::optional<std::int64_t> power_limit_mw;         // enforced
  std::optional<bool> ecc;
  std::optional<bool> mig;
  std::vector<MigInstance> instances;
  std::string compute_mode;    // "default", "exclusive_process", "prohibited"; empty when not told
  std::string virtualization;  // "none", "passthrough", "vgpu", "host_vgpu", "host_vsga"; empty when not told
  std::optional<std::int64_t> pcie_generation;  // the most that device and slot can do
  std::optional<std::int64_t> pcie_width;
  std::vector<NvLink> nvlinks;
  std::string failure;                // the device cannot be asked at all ("the GPU is lost"); the rest is empty then
  std::vector<std::string> refusals;  // single questions that failed, for `doctor`
};

// How two GPUs reach each other over PCI: "internal", "switch", "switches", "host_bridge", "numa_node", "system".
struct GpuPath {
  std::int64_t first = 0;
  std::int64_t second = 0;
  std::string over;
};

enum class GpuAccess {
  kAbsent,      // no library, no driver or no device: a CPU node
  kUnreadable,  // a driver is there and NVML does not work; `reason` says why
  kReadable,
};

struct GpuInventory {
  GpuAccess access = GpuAccess::kAbsent;
  std::string reason;
  std::string driver_version;             // "550.54.15"
  std::string cuda_version;               // "12.4": the newest that the driver runs
  std::optional<bool> confidential;       // confidential computing
  std::optional<bool> confidential_open;  // its developer-tools mode: tools may look inside
  std::vector<GpuFacts> gpus;
  std::vector<GpuPath> paths;
};

// Asks the library of this name or path, and waits for its answer at most `limit`: one that does not come leaves a
// thread behind, and the access is kUnreadable. Any thread may call.
[[nodiscard]] GpuInventory read_gpu_inventory(const std::string& library, Nanoseconds limit);
// The same on the caller's thread, which a broken driver may hold for ever.
[[nodiscard]] GpuInventory await_gpu_inventory(const std::string& library);

}  // namespace trimtab::host
