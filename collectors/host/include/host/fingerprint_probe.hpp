#pragma once

// The hardware fingerprint of a node, from /proc, /sys and NVML. What it holds changes only when costs may: no free
// memory, no current clock rates, no kernel patch level. Any thread may call any free
// function.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "host/gpu_inventory.hpp"
#include "host/source.hpp"
#include "schema/fingerprint.hpp"

namespace trimtab::host {

// Where to look; tests name a fixture tree.
struct ProbeInput {
  std::string root = "/";
  std::map<std::string, std::string> environment;  // of the job's processes
  std::string libc;                                // "glibc 2.36"
  GpuInventory gpus = {};                          // as read_gpu_inventory() found them
};

// This machine and this process, with the GPUs that were found.
[[nodiscard]] ProbeInput probe_input(GpuInventory gpus);

// Layers and keys of a CPU node:
//   device       kind=cpu model cores (that this process may use) isa memory_gib max_frequency_mhz* cpu_quota*
//                other_gpus* (AMD's: what a job there costs is not the processor's)
//   software     kernel (major.minor) libc
//   fabric       topology=single-host
//   environment  the variables below that are set
// Of a GPU node (one whose GPUs NVML shows, or that has /dev/nvidiaN):
//   device       kind=gpu model compute_capability multiprocessors memory_gib sm_clock_max_mhz memory_clock_max_mhz
//                application_clock_mhz* power_limit_w ecc* mig* virtualization* host_cpu cpu_quota*; with MIG the size
//                is that of the instances. nvml=unreadable where NVML does not work: then only the model is known
//   software     kernel libc driver cuda
//   fabric       topology=single-host gpus pcie gpu_paths nvlink* nvlink_pairs* network*
//   environment  the variables, mps=on*, mig_instances=chosen* (by CUDA_VISIBLE_DEVICES), confidential_computing=on*
// (* where the machine tells, or where it is so.) Fails when /proc cannot be read.
[[nodiscard]] Result<Fingerprint> probe_fingerprint(const ProbeInput& input);

// Notices that a node's hardware fingerprint has changed while its agent runs: GPUs were divided (MIG), a daemon shares
// them (MPS), a power cap was set. Costs measured before and after must not mix.
class FingerprintWatch final {
 public:
  using Probe = std::function<Result<Fingerprint>()>;

  // `probe` takes the fingerprint anew; it runs on the thread that reads the source and must own what it uses.
  FingerprintWatch(Fingerprint first, Probe probe);

  // To be read with the others; probes at every twelfth read, and gives no samples. It may outlive the watch.
  [[nodiscard]] std::unique_ptr<Source> source() const;

  // The fingerprint that the node has now, where it is another than the last that was given. Never waits.
  [[nodiscard]] std::optional<Fingerprint> take();

 private:
  struct Seen;
  Fingerprint last_;
  Probe probe_;
  std::shared_ptr<Seen> seen_;
};

// Takes this node's fingerprint with the GPUs that the library `nvml` tells. Fails while it does not work: that NVML is
// out of order is no change of the hardware.
[[nodiscard]] FingerprintWatch::Probe gpu_node_probe(const std::string& nvml);

}  // namespace trimtab::host
