#pragma once

// What `trimtab doctor` says of a GPU node: what restricts profiling, how much detail remains in spite of it, and what
// to do. Judgements over facts that come in as arguments. Pure.

#include <map>

#include "doctor/checks.hpp"
#include "host/profiling_facts.hpp"

namespace trimtab::cli {

using Environment = std::map<std::string, std::string>;

// One check for each thing that could restrict profiling, whether it does or not; on a node without GPUs the one that
// says so, and what also holds there.
[[nodiscard]] std::vector<Check> gpu_checks(const host::ProfilingFacts& facts, const Environment& environment);

// Single ones.
[[nodiscard]] Check check_gpus(const host::GpuInventory& gpus, const std::string& kernel_driver);
[[nodiscard]] Check check_amd(const std::vector<host::AmdGpu>& gpus, bool accessible);
[[nodiscard]] Check check_device_files(const std::vector<host::DeviceFile>& files);
[[nodiscard]] Check check_counters(const std::optional<bool>& admin_only);
[[nodiscard]] Check check_virtualization(const host::GpuInventory& gpus);
[[nodiscard]] Check check_confidential(const host::GpuInventory& gpus);
// `visible`: CUDA_VISIBLE_DEVICES of the job.
[[nodiscard]] Check check_mig(const host::GpuInventory& gpus, const std::string& visible = "");
[[nodiscard]] Check check_mps(const std::string& pipe_directory, bool daemon_seen);
[[nodiscard]] Check check_cupti(const std::string& path);
[[nodiscard]] Check check_nccl(const std::string& path);
[[nodiscard]] Check check_other_profilers(const Environment& environment);
// Of links of GPUs and network cards that are below their best.
[[nodiscard]] Check check_links(const std::vector<host::LinkFault>& below);
[[nodiscard]] Check check_shared_memory(const std::optional<Bytes>& size);
[[nodiscard]] Check check_sealed_memory(bool available);
[[nodiscard]] Check check_privileges(const std::optional<std::int64_t>& perf_event_paranoid);

}  // namespace trimtab::cli
