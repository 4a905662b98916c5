#pragma once

// What of this machine, and of the environment a job would have, decides how much of a GPU job can be seen. Facts only:
// `trimtab doctor` judges them. Nothing here needs a privilege. Any thread may call.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "host/amd_gpus.hpp"
#include "host/gpu_inventory.hpp"
#include "host/link_watch.hpp"

namespace trimtab::host {

struct DeviceFile {
  std::string path;  // "/dev/nvidia0"
  bool accessible = false;
};

struct ProfilingFacts {
  GpuInventory gpus = {};
  std::vector<AmdGpu> amd_gpus = {};
  bool amd_accessible = false;              // programs of this user can use them
  std::string kernel_driver;                // its version; empty where none is loaded
  std::optional<bool> counters_admin_only;  // NVreg_RestrictProfilingToAdminUsers
  std::vector<DeviceFile> device_files;     // GPUs, their control device and unified memory
  std::string mps_pipe;                     // the pipe directory of an MPS daemon; empty where there is none
  bool mps_seen = false;                    // its daemon runs here
  std::string cupti;                        // the library's path; empty where none was found
  std::string nccl;
  std::optional<Bytes> shared_memory;  // size of /dev/shm
  bool sealed_memory = false;          // rings can be made: memfd_create() with seals
  std::optional<std::int64_t> perf_event_paranoid;
  std::vector<LinkFault> links_below = {};  // their best
};

struct ProfilingInput {
  std::string root = "/";
  std::map<std::string, std::string> environment;  // of the job's processes
  std::vector<std::string> library_directories;    // beside the usual ones: the job's Python packages
  GpuInventory gpus = {};
  Samples samples = {};  // of the sources "gpu" and "pci"
};

[[nodiscard]] ProfilingFacts read_profiling_facts(const ProfilingInput& input);

}  // namespace trimtab::host
