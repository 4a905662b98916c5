#include "host/fingerprint_probe.hpp"

#include <gnu/libc-version.h>
#include <unistd.h>

#include <mutex>
#include <string_view>
#include <utility>

#include "base/numbers.hpp"
#include "gpu/driver_files.hpp"
#include "gpu/gpu_fingerprint.hpp"
#include "host/amd_gpus.hpp"
#include "host/process_facts.hpp"
#include "proc_text.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

Status add_device(const std::string& root, Fingerprint& fingerprint) {
  TRIMTAB_TRY(const std::string cpuinfo, read_system_file(root, "proc/cpuinfo"));
  TRIMTAB_TRY(const std::string meminfo, read_system_file(root, "proc/meminfo"));
  TRIMTAB_TRY(const std::string status, read_system_file(root, "proc/self/status"));
  TRIMTAB_TRY(const std::int64_t cores, parse_cpu_list(parse_line(status, "Cpus_allowed_list")));
  const CpuDescription cpu = parse_cpuinfo(cpuinfo);
  fingerprint.device["kind"] = "cpu";
  fingerprint.device["model"] = cpu.model;
  fingerprint.device["isa"] = cpu.isa;
  fingerprint.device["cores"] = std::to_string(cores);
  fingerprint.device["memory_gib"] = whole_gibibytes(parse_kilobytes_line(meminfo, "MemTotal").value_or(0));
  const auto kilohertz = system_integer(root, "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  if (kilohertz) fingerprint.device["max_frequency_mhz"] = std::to_string(*kilohertz / 1000);
  return {};
}

void add_quota(const std::string& root, Fingerprint& fingerprint) {
  const auto limits = read_cgroup_limits(root, "self");
  if (limits.ok() && limits->cpus) fingerprint.device["cpu_quota"] = format_fixed(*limits->cpus, 2);
}

// A container without GPUs on a machine that has some sees no device files: a CPU node.
bool has_gpus(const ProbeInput& input) {
  return input.gpus.access == GpuAccess::kReadable || !gpu_device_files(input.root).empty();
}

// The processor launches kernels: its model stays, its size does not matter.
void add_gpus(const ProbeInput& input, Fingerprint& fingerprint) {
  std::map<std::string, std::string> of_cpu = std::exchange(fingerprint.device, {});
  fingerprint.device["host_cpu"] = of_cpu["model"];
  if (of_cpu.contains("cpu_quota")) fingerprint.device["cpu_quota"] = of_cpu["cpu_quota"];
  if (input.gpus.access == GpuAccess::kReadable) {
    describe_gpus(input.gpus, input.root, fingerprint);
  } else {
    describe_unreadable_gpus(input.root, fingerprint);
  }
  if (find_mps(input.root, input.environment).on()) fingerprint.environment["mps"] = "on";
}

}  // namespace

ProbeInput probe_input(GpuInventory gpus) {
  ProbeInput input;
  input.gpus = std::move(gpus);
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      input.environment[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  input.libc = std::string("glibc ") + gnu_get_libc_version();
  return input;
}

Result<Fingerprint> probe_fingerprint(const ProbeInput& input) {
  Fingerprint fingerprint;
  TRIMTAB_TRY_STATUS(add_device(input.root, fingerprint));
  add_quota(input.root, fingerprint);
  TRIMTAB_TRY(const std::string release, read_system_file(input.root, "proc/sys/kernel/osrelease"));
  fingerprint.software["kernel"] = parse_kernel_release(release);
  if (!input.libc.empty()) fingerprint.software["libc"] = input.libc;
  fingerprint.fabric["topology"] = "single-host";
  if (has_gpus(input)) {
    add_gpus(input, fingerprint);
  } else if (const std::string others = amd_gpus_text(find_amd_gpus(input.root)); !others.empty()) {
    fingerprint.device["other_gpus"] = others;
  }
  return fingerprint_of_job(std::move(fingerprint), input.environment, {});
}

// What the source's thread has found and the owner has not taken.
struct FingerprintWatch::Seen {
  std::mutex mutex;
  std::optional<Fingerprint> fingerprint;
};

FingerprintWatch::FingerprintWatch(Fingerprint first, Probe probe)
    : last_(std::move(first)), probe_(std::move(probe)), seen_(std::make_shared<Seen>()) {}

std::unique_ptr<Source> FingerprintWatch::source() const {
  constexpr unsigned kReadsBetweenProbes = 12;
  return make_source("fingerprint", [probe = probe_, seen = seen_, reads = 0U]() mutable -> Result<Samples> {
    if (++reads % kReadsBetweenProbes != 0) return Samples{};
    TRIMTAB_TRY(Fingerprint fingerprint, probe());
    const std::scoped_lock lock(seen->mutex);
    seen->fingerprint = std::move(fingerprint);
    return Samples{};
  });
}

std::optional<Fingerprint> FingerprintWatch::take() {
  std::optional<Fingerprint> now;
  {
    const std::scoped_lock lock(seen_->mutex);
    now = std::exchange(seen_->fingerprint, std::nullopt);
  }
  if (!now || *now == last_) return std::nullopt;
  last_ = *now;
  return now;
}

FingerprintWatch::Probe gpu_node_probe(const std::string& nvml) {
  return [nvml]() -> Result<Fingerprint> {
    ProbeInput input = probe_input(await_gpu_inventory(nvml));
    if (input.gpus.access != GpuAccess::kReadable) return unavailable(input.gpus.reason);
    return probe_fingerprint(input);
  };
}

}  // namespace trimtab::host
