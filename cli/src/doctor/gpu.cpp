#include "doctor/gpu.hpp"

#include <charconv>
#include <set>
#include <string_view>

#include "run/variables.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

using host::GpuAccess;
using host::GpuFacts;
using host::GpuInventory;

constexpr const char* kInjectLibrary = "libtrimtab-inject.so";
constexpr const char* kOwnFingerprint = "costs measured here keep a fingerprint of their own";

Check well(std::string name, std::string found) {
  return {std::move(name), Health::kOk, std::move(found), "", Detail::kKernels};
}

Check restricted(std::string name, std::string found, std::string remedy, Detail remains = Detail::kKernels) {
  return {std::move(name), Health::kWarn, std::move(found), std::move(remedy), remains};
}

std::string description_of(const GpuInventory& gpus) {
  std::set<std::string> models;
  for (const GpuFacts& gpu : gpus.gpus) models.insert(gpu.name);
  models.erase("");
  return std::to_string(gpus.gpus.size()) + " x " + joined(models) + ", driver " + gpus.driver_version + ", CUDA " +
         gpus.cuda_version;
}

constexpr int kLastCupti = 13;

// "…/libcupti.so.13" and "…/libcupti.so.13.0.85" -> 13; 0 for names by year ("libcupti.so.2025.1.1") and without.
int release_of_cupti(const std::string& path) {
  constexpr std::string_view kName = "libcupti.so.";
  const std::size_t at = path.rfind(kName);
  if (at == std::string::npos) return 0;
  int release = 0;
  const char* const end = path.data() + path.size();
  const auto read = std::from_chars(path.data() + at + kName.size(), end, release);
  return read.ec == std::errc{} && release < 1000 ? release : 0;
}

bool is_ours(const std::string& injection) {
  return injection.empty() || injection == "none" || injection.ends_with(kInjectLibrary);
}

}  // namespace

Check check_gpus(const GpuInventory& gpus, const std::string& kernel_driver) {
  const std::string name = "GPUs";
  if (gpus.access != GpuAccess::kReadable) {
    const std::string driver = kernel_driver.empty() ? "" : " (kernel driver " + kernel_driver + ")";
    return restricted(name, gpus.reason + driver,
                      "kernels can be timed without NVML, but clocks, throttling and the fingerprint's details are "
                      "missing: make libnvidia-ml.so.1 of the running driver visible, or reboot after a driver update");
  }
  std::set<std::string> lost;
  std::set<std::string> refused;
  for (const GpuFacts& gpu : gpus.gpus) {
    if (!gpu.failure.empty()) lost.insert("GPU " + std::to_string(gpu.index) + ": " + gpu.failure);
    refused.insert(gpu.refusals.begin(), gpu.refusals.end());
  }
  if (!lost.empty()) {
    return {name, Health::kFail, joined(lost), "drain the node and reset or replace that GPU", Detail::kKernels};
  }
  if (!refused.empty()) {
    return restricted(name, description_of(gpus) + "; NVML refuses: " + joined(refused),
                      "what NVML refuses is missing from metrics and fingerprint; the driver's log may say why");
  }
  return well(name, description_of(gpus));
}

// What they do is not recorded; a job on them is watched as one on processors is.
Check check_amd(const std::vector<host::AmdGpu>& gpus, bool accessible) {
  const std::string closed = accessible ? "" : "; /dev/kfd cannot be opened, so no program of this user uses them";
  return restricted("AMD GPUs",
                    host::amd_gpus_text(gpus) + ": not known, no kernels, clocks or memory of these" + closed,
                    std::string("jobs run and are watched: steps, their parts, ranges and the host's metrics are "
                                "measured, and the card is of these. Collectives are timed where they are Gloo's. ") +
                        kOwnFingerprint,
                    Detail::kRanges);
}

Check check_device_files(const std::vector<host::DeviceFile>& files) {
  const std::string name = "device files";
  std::set<std::string> closed;
  for (const host::DeviceFile& file : files) {
    if (!file.accessible) closed.insert(file.path);
  }
  if (files.empty()) return well(name, "none under /dev");  // NVML answers all the same
  if (closed.empty()) return well(name, std::to_string(files.size()) + " can be opened");
  return {name, Health::kFail, "cannot be opened for reading and writing: " + joined(closed),
          "no CUDA program runs without them: add this user to their group, or start the container with its GPUs",
          Detail::kRanges};
}

// Since CUDA 10.2 tracing needs no privilege; counters do.
Check check_counters(const std::optional<bool>& admin_only) {
  const std::string name = "RestrictProfilingToAdminUsers";
  if (!admin_only) return well(name, "not told by this driver");
  if (!*admin_only) return well(name, "0: open to all");
  return restricted(name, "1: hardware counters are for administrators; the times of kernels are not counters",
                    "nothing, as a rule: Trimtab reads no counters. Where CUPTI still answers 'insufficient "
                    "privileges' (code 35), an administrator sets 'options nvidia "
                    "NVreg_RestrictProfilingToAdminUsers=0' and reloads the driver; until then collectives remain");
}

Check check_virtualization(const GpuInventory& gpus) {
  const std::string name = "vGPU";
  std::set<std::string> modes;
  bool shared = false;
  for (const GpuFacts& gpu : gpus.gpus) {
    if (!gpu.virtualization.empty()) modes.insert(gpu.virtualization);
    shared = shared || gpu.virtualization == "vgpu" || gpu.virtualization.starts_with("host_");
  }
  if (!shared) return well(name, modes.empty() ? "not told by this driver" : joined(modes));
  return restricted(name, joined(modes) + ": kernels can be timed only where the hypervisor allows it",
                    "set enable_profiling=1 for this virtual machine's vGPU on the hypervisor; without it collectives "
                    "and ranges are measured",
                    Detail::kCollectives);
}

Check check_confidential(const GpuInventory& gpus) {
  const std::string name = "confidential computing";
  if (!gpus.confidential.value_or(false)) return well(name, gpus.confidential ? "off" : "not told by this driver");
  if (gpus.confidential_open.value_or(false)) {
    return restricted(name, std::string("on, open to developer tools; ") + kOwnFingerprint, "nothing");
  }
  return restricted(name, "on: the driver shows no kernels",
                    "boot the confidential VM with the driver's developer-tools mode to time kernels; without it "
                    "collectives and ranges are measured",
                    Detail::kCollectives);
}

Check check_mig(const GpuInventory& gpus, const std::string& visible) {
  const std::string name = "MIG";
  std::set<std::string> profiles;
  bool divided = false;
  for (const GpuFacts& gpu : gpus.gpus) {
    divided = divided || gpu.mig.value_or(false);
    for (const host::MigInstance& instance : gpu.instances) profiles.insert(instance.profile);
  }
  const bool takes_instance = visible.find("MIG-") != std::string::npos;
  if (!divided && takes_instance) {
    return restricted(
        name,
        std::string("CUDA_VISIBLE_DEVICES names an instance, and no GPU seen here is divided; ") + kOwnFingerprint,
        "name instances that nvidia-smi -L shows here");
  }
  if (!divided) return well(name, "off");
  return restricted(name, "on: " + (profiles.empty() ? "no instances" : joined(profiles)) + "; " + kOwnFingerprint,
                    profiles.empty() ? "make instances (nvidia-smi mig -cgi ... -C), or switch MIG off"
                                     : "nothing: kernels are timed. NCCL does not join instances of one GPU");
}

Check check_mps(const std::string& pipe_directory, bool daemon_seen) {
  const std::string name = "MPS";
  if (pipe_directory.empty()) return well(name, "off");
  const std::string seen = daemon_seen ? "" : " (no daemon is seen from here)";
  return restricted(name,
                    "on, " + pipe_directory + seen + ": kernels of other processes run beside; " + kOwnFingerprint,
                    "to measure alone: echo quit | nvidia-cuda-mps-control" +
                        std::string(daemon_seen ? "" : ", or remove the directory that a dead daemon left"));
}

Check check_cupti(const std::string& path) {
  if (release_of_cupti(path) > kLastCupti) {
    return restricted("CUPTI",
                      path + ": later than " + std::to_string(kLastCupti) + ", the last whose records are known",
                      "no kernel is recorded. Collectives, ranges and steps are. Name the directory of an earlier "
                      "libcupti that the driver runs in LD_LIBRARY_PATH of the job's [environment]",
                      Detail::kCollectives);
  }
  if (!path.empty()) return well("CUPTI", path);
  return restricted("CUPTI", "no libcupti.so in the usual places, LD_LIBRARY_PATH or the interpreter's packages",
                    "without it no kernel is timed: install cuda-cupti (or the nvidia-cuda-cupti package of PyTorch), "
                    "or name its directory in LD_LIBRARY_PATH of the job's [environment]",
                    Detail::kCollectives);
}

Check check_nccl(const std::string& path) {
  if (!path.empty()) return well("NCCL", path);
  return restricted("NCCL", "no libnccl.so in the usual places, LD_LIBRARY_PATH or the interpreter's packages",
                    "a job on one GPU needs none; a program that has NCCL linked into it cannot load plugins, so its "
                    "collectives are seen as kernels only");
}

Check check_other_profilers(const Environment& environment) {
  const std::string name = "other profilers";
  std::set<std::string> found;
  for (const char* variable : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"}) {
    const std::string value = value_of(environment, variable);
    if (!is_ours(value)) found.insert(std::string(variable) + "=" + value);
  }
  for (const auto& [variable, value] : environment) {
    if (variable.starts_with("NSYS_") || variable.starts_with("NV_COMPUTE_PROFILER")) found.insert(variable);
  }
  const std::string preload = value_of(environment, "LD_PRELOAD");
  for (const char* library : {"libevent_hook.so", "libToolsInjection"}) {
    if (preload.find(library) != std::string::npos) found.insert("LD_PRELOAD=" + preload);
  }
  if (found.empty()) return well(name, "none in this environment");
  return restricted(name, joined(found), "the CUDA driver serves one profiler at a time: unset it for tuned jobs",
                    Detail::kCollectives);
}

Check check_links(const std::vector<host::LinkFault>& below) {
  std::set<std::string> texts;
  for (const host::LinkFault& one : below) texts.insert(to_text(one));
  if (texts.empty()) return well("PCIe links", "none is below its best");
  return {
      "PCIe links", Health::kWarn, joined(texts),
      "look again while a job runs, for some devices give up lanes at rest. What stays so: reseat the card, and look "
      "at its slot ('lspci -vv')"};
}

Check check_shared_memory(const std::optional<Bytes>& size) {
  constexpr Bytes kEnough = Bytes{1} << 30;
  const std::string name = "/dev/shm";
  if (!size) {
    return restricted(name, "is not there", "NCCL and data loaders share memory through it: mount a tmpfs on it");
  }
  if (*size >= kEnough) return well(name, format_bytes(*size));
  return restricted(name, format_bytes(*size) + ", less than 1 GiB",
                    "NCCL and data loaders share memory through it and fail when it is full: give the container "
                    "--shm-size=8g or --ipc=host");
}

Check check_sealed_memory(bool available) {
  if (available) return well("sealed memory", "memfd_create works");
  return {
      "sealed memory", Health::kFail, "memfd_create with seals is refused",
      "rings cannot be made, so nothing is recorded inside jobs: use Linux 3.17 or newer, and allow memfd_create in "
      "the container's seccomp profile",
      Detail::kOff};
}

Check check_privileges(const std::optional<std::int64_t>& perf_event_paranoid) {
  const std::string paranoid =
      perf_event_paranoid ? "; perf_event_paranoid=" + std::to_string(*perf_event_paranoid) + " does not matter" : "";
  return well("privileges", "none is needed, neither CAP_SYS_ADMIN nor CAP_PERFMON" + paranoid);
}

std::vector<Check> gpu_checks(const host::ProfilingFacts& facts, const Environment& environment) {
  const std::vector<Check> everywhere{check_other_profilers(environment), check_shared_memory(facts.shared_memory),
                                      check_sealed_memory(facts.sealed_memory),
                                      check_privileges(facts.perf_event_paranoid)};
  std::vector<Check> checks;
  if (facts.gpus.access == GpuAccess::kAbsent && facts.device_files.empty()) {
    checks.push_back({"GPUs", Health::kOk, "none: " + facts.gpus.reason, "", Detail::kRanges});
    if (!facts.amd_gpus.empty()) checks.back() = check_amd(facts.amd_gpus, facts.amd_accessible);
    if (!facts.links_below.empty()) checks.push_back(check_links(facts.links_below));
  } else {
    checks = {check_gpus(facts.gpus, facts.kernel_driver),
              check_device_files(facts.device_files),
              check_counters(facts.counters_admin_only),
              check_virtualization(facts.gpus),
              check_confidential(facts.gpus),
              check_mig(facts.gpus, value_of(environment, "CUDA_VISIBLE_DEVICES")),
              check_mps(facts.mps_pipe, facts.mps_seen),
              check_cupti(facts.cupti),
              check_nccl(facts.nccl),
              check_links(facts.links_below)};
  }
  checks.insert(checks.end(), everywhere.begin(), everywhere.end());
  return checks;
}

}  // namespace trimtab::cli
