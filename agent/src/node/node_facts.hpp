#pragma once

// What an agent says of its node before it has measured anything.

#include <cstdint>
#include <string>

#include "agent/configuration.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "schema/fingerprint.hpp"

namespace trimtab::agent {

struct NodeFacts {
  Fingerprint fingerprint;
  Bytes memory = 0;            // of one device
  std::string inject_library;  // empty where there is none
  std::string gpu_problem;     // why NVML does not work although there are GPUs; empty when all is well
};

[[nodiscard]] Result<NodeFacts> node_facts(const Configuration& configuration, const std::string& program_directory);

}  // namespace trimtab::agent
