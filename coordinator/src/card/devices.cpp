#include "card/devices.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "schema/api/unusual_hardware.hpp"

namespace trimtab::coordinator {

namespace {

std::string value_in(const std::map<std::string, std::string>& layer, const std::string& key) {
  const auto found = layer.find(key);
  return found == layer.end() ? "" : found->second;
}

// By a rank's own word, else by what its node has.
std::string name_of(const RankEvidence& rank, const Fingerprint& node) {
  if (!rank.facts.device_name.empty()) return rank.facts.device_name;
  const bool has_gpus = value_in(node.device, "kind") == "gpu";
  const std::string processor = value_in(node.device, has_gpus ? "host_cpu" : "model");
  if (rank.facts.device == "cpu") return processor;
  const std::string other = value_in(node.device, "other_gpus");
  const std::string gpus = has_gpus ? value_in(node.device, "model") : other;
  if (!gpus.empty()) return gpus;
  return rank.facts.device.empty() ? processor : rank.facts.device;
}

std::vector<std::string> limits_of(const RankEvidence& rank, const Fingerprint& node) {
  const std::string& kind = rank.facts.device;
  if (kind == "cpu") return {};
  std::vector<std::string> limits = unusual_hardware(node);
  if (rank.unknown_cupti) limits.emplace_back(kUnknownCupti);
  if (!kind.empty() && kind != "cuda") {
    limits.push_back("devices of the kind '" + kind +
                     "' are not known: no kernels, clocks or memory of these are recorded. Steps, their parts, ranges "
                     "and the host's metrics are");
  }
  return limits;
}

}  // namespace

std::vector<api::CardDevices> devices_of(const JobEvidence& job) {
  static const Fingerprint nothing;
  std::map<std::pair<std::string, std::vector<std::string>>, std::int64_t> counts;
  for (const auto& [number, rank] : job.ranks) {
    const auto node = job.nodes.find(rank.node);
    const Fingerprint& known = node == job.nodes.end() ? nothing : node->second;
    ++counts[{name_of(rank, known), limits_of(rank, known)}];
  }
  std::vector<api::CardDevices> devices;
  for (const auto& [of, ranks] : counts) {
    if (!of.first.empty() || !of.second.empty()) devices.push_back({of.first, ranks, of.second});
  }
  std::ranges::stable_sort(devices, std::ranges::greater{}, &api::CardDevices::ranks);
  return devices;
}

}  // namespace trimtab::coordinator
