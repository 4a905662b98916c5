#include "node_facts.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "host/fingerprint_probe.hpp"
#include "host/process_facts.hpp"

namespace trimtab::agent {

namespace {

Bytes machine_memory() {
  const Bytes physical = Bytes{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  const auto limits = host::read_cgroup_limits("/", ::getpid());
  return limits.ok() && limits->memory_bytes ? std::min(physical, *limits->memory_bytes) : physical;
}

}  // namespace

Result<NodeFacts> node_facts(const Configuration& configuration, const std::string& program_directory) {
  NodeFacts facts;
  TRIMTAB_TRY(facts.fingerprint, host::probe_fingerprint(host::probe_input()));
  facts.memory = configuration.memory > 0 ? configuration.memory : machine_memory() / configuration.devices;
  const bool chosen = !configuration.inject_library.empty();
  const std::filesystem::path library =
      chosen ? configuration.inject_library : program_directory + "/../lib/libtrimtab-inject.so";
  std::error_code failure;
  if (std::filesystem::exists(library, failure)) {
    facts.inject_library = std::filesystem::weakly_canonical(library, failure).string();
  } else if (chosen) {
    return bad_input("there is no library " + library.string() + ", which --inject names");
  }
  return facts;
}

}  // namespace trimtab::agent
