#include "gpu/gpu_links.hpp"

#include <array>

namespace trimtab::host {

namespace {

NvLinkEnd end_named(int type) {
  if (type == nvml::kRemoteGpu) return NvLinkEnd::kGpu;
  return type == nvml::kRemoteSwitch ? NvLinkEnd::kSwitch : NvLinkEnd::kOther;
}

// NVML numbers the versions in the order of their appearance.
std::string version_named(unsigned number) {
  constexpr std::array kNames{"", "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0", "6.0"};
  return number < kNames.size() ? kNames[number] : "number " + std::to_string(number);
}

const char* path_named(int level) {
  switch (level) {
    case 0:
      return "internal";
    case 10:
      return "switch";
    case 20:
      return "switches";
    case 30:
      return "host_bridge";
    case 40:
      return "numa_node";
    case 50:
      return "system";
    default:
      return "unknown";
  }
}

// A device answers for a link that it does not have with "invalid argument" or "not supported".
bool is_active(const NvmlLibrary& library, nvml::Device device, unsigned link) {
  int active = 0;
  return library.call.nvmlDeviceGetNvLinkState != nullptr &&
         library.call.nvmlDeviceGetNvLinkState(device, link, &active) == nvml::kSuccess && active == 1;
}

}  // namespace

std::vector<NvLink> read_nvlinks(const NvmlLibrary& library, nvml::Device device, NvmlRefusals& refusals) {
  std::vector<NvLink> links;
  for (unsigned number = 0; number < nvml::kMaxNvLinks; ++number) {
    if (!is_active(library, device, number)) continue;
    NvLink link;
    const auto version =
        library.ask<unsigned>(TRIMTAB_NVML(library, nvmlDeviceGetNvLinkVersion), refusals, device, number);
    const auto end =
        library.ask<int>(TRIMTAB_NVML(library, nvmlDeviceGetNvLinkRemoteDeviceType), refusals, device, number);
    const auto remote = library.ask<nvml::PciInfo>(TRIMTAB_NVML(library, nvmlDeviceGetNvLinkRemotePciInfo_v2), refusals,
                                                   device, number);
    if (version) link.version = version_named(*version);
    if (end) link.end = end_named(*end);
    if (remote && link.end == NvLinkEnd::kGpu) link.remote_bus_id = remote->bus_id;
    links.push_back(std::move(link));
  }
  return links;
}

std::vector<GpuPath> read_gpu_paths(const NvmlLibrary& library, const std::vector<nvml::Device>& devices) {
  std::vector<GpuPath> paths;
  NvmlRefusals ignored;  // a path that is not told is missing
  for (std::size_t first = 0; first < devices.size(); ++first) {
    for (std::size_t second = first + 1; second < devices.size(); ++second) {
      if (devices[first] == nullptr || devices[second] == nullptr) continue;
      const auto level = library.ask<int>(TRIMTAB_NVML(library, nvmlDeviceGetTopologyCommonAncestor), ignored,
                                          devices[first], devices[second]);
      if (!level) continue;
      paths.push_back({static_cast<std::int64_t>(first), static_cast<std::int64_t>(second), path_named(*level)});
    }
  }
  return paths;
}

}  // namespace trimtab::host
