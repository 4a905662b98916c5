#include "node/node_facts.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "host/fingerprint_probe.hpp"
#include "host/process_facts.hpp"
#include "host/release_library.hpp"

namespace trimtab::agent {

namespace {

constexpr Nanoseconds kNvmlLimit = std::chrono::seconds(10);

Bytes machine_memory() {
  const Bytes physical = Bytes{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  const auto limits = host::read_cgroup_limits("/", ::getpid());
  return limits.ok() && limits->memory_bytes ? std::min(physical, *limits->memory_bytes) : physical;
}

// The least that a rank of this node has: a GPU's memory, or that of an instance of a divided one.
std::optional<Bytes> gpu_memory(const host::GpuInventory& gpus) {
  std::optional<Bytes> least;
  const auto count = [&](const std::optional<Bytes>& memory) {
    if (memory) least = std::min(*memory, least.value_or(*memory));
  };
  for (const host::GpuFacts& gpu : gpus.gpus) {
    for (const host::MigInstance& instance : gpu.instances) count(instance.memory);
    if (!gpu.mig.value_or(false)) count(gpu.memory);
  }
  return least;
}

}  // namespace

Result<NodeFacts> node_facts(const Configuration& configuration, const std::string& program_directory) {
  NodeFacts facts;
  const host::ProbeInput input = host::probe_input(host::read_gpu_inventory(configuration.nvml, kNvmlLimit));
  TRIMTAB_TRY(facts.fingerprint, host::probe_fingerprint(input));
  if (facts.fingerprint.device.contains("nvml")) facts.gpu_problem = input.gpus.reason;
  facts.memory = configuration.memory > 0 ? configuration.memory
                                          : gpu_memory(input.gpus).value_or(machine_memory() / configuration.devices);
  const bool chosen = !configuration.inject_library.empty();
  const std::filesystem::path library = chosen ? std::filesystem::path(configuration.inject_library)
                                               : host::release_library(program_directory, "libtrimtab-inject.so");
  std::error_code failure;
  if (std::filesystem::exists(library, failure)) {
    facts.inject_library = std::filesystem::weakly_canonical(library, failure).string();
  } else if (chosen) {
    return bad_input("there is no library " + library.string() + ", which --inject names");
  }
  return facts;
}

}  // namespace trimtab::agent
