#include "schema/api/unusual_hardware.hpp"

#include <map>

namespace trimtab {
namespace {

std::string value_in(const std::map<std::string, std::string>& layer, const std::string& key) {
  const auto found = layer.find(key);
  return found == layer.end() ? "" : found->second;
}

}  // namespace

std::vector<std::string> unusual_hardware(const Fingerprint& node) {
  std::vector<std::string> all;
  const std::string others = value_in(node.device, "other_gpus");
  if (!others.empty()) {
    all.push_back("of " + others +
                  " no kernels, clocks or memory are recorded. Steps, their parts, ranges, Gloo's collectives and the "
                  "host's metrics are, and costs are kept apart from those of processors");
  }
  const std::string division = value_in(node.device, "mig");
  if (!division.empty() && division != "off") {
    all.push_back("GPUs are divided by MIG (" + division +
                  "): all is measured of the instances, and costs are kept apart from those of whole devices");
  }
  if (value_in(node.environment, "mps") == "on") {
    all.emplace_back(
        "GPUs are shared by MPS: all is measured beside what other processes run there, and costs are kept apart from "
        "those of processes that run alone");
  }
  return all;
}

}  // namespace trimtab
