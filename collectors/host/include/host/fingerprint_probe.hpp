#pragma once

// The hardware fingerprint of a CPU node, from /proc and /sys. What it holds changes only when costs may: no free
// memory, no current clock rates, no kernel patch level. Any thread may call any function.

#include <map>
#include <string>

#include "base/result.hpp"
#include "schema/fingerprint.hpp"

namespace trimtab::host {

// Where to look; tests name a fixture tree.
struct ProbeInput {
  std::string root = "/";
  std::map<std::string, std::string> environment;  // of the job's processes
  std::string libc;                                // "glibc 2.36"
};

// This machine and this process.
[[nodiscard]] ProbeInput probe_input();

// Layers and keys:
//   device       kind=cpu model cores (that this process may use) isa memory_gib max_frequency_mhz* cpu_quota*
//   software     kernel (major.minor) libc
//   fabric       topology=single-host
//   environment  the variables below that are set
// (* where the machine tells.) Fails when /proc cannot be read.
[[nodiscard]] Result<Fingerprint> probe_fingerprint(const ProbeInput& input);

// Whether a variable of this name changes the costs of a process: thread counts, core types, bindings, NCCL_*.
[[nodiscard]] bool changes_costs(const std::string& variable);

// Adds what a job knows of itself (versions of its framework, BLAS and Gloo) layer by layer; its keys replace ours.
void merge(Fingerprint& fingerprint, const Fingerprint& of_job);

}  // namespace trimtab::host
