#include "sources/sources.hpp"

namespace trimtab::host {

std::vector<std::unique_ptr<Source>> host_sources(const std::string& root, const std::string& nvml) {
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(cpu_source(root));
  sources.push_back(cpu_clock_source(root));
  sources.push_back(memory_source(root));
  sources.push_back(pressure_source(root));
  sources.push_back(cgroup_source(root));
  sources.push_back(network_source(root));
  sources.push_back(infiniband_source(root));
  sources.push_back(gpu_source(nvml));
  return sources;
}

}  // namespace trimtab::host
