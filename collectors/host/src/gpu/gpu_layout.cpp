#include "gpu/gpu_layout.hpp"

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

// Levels are multiples of ten.
const char* path_named(int level) {
  constexpr std::array kNames{"internal", "switch", "switches", "host_bridge", "numa_node", "system"};
  const auto place = static_cast<std::size_t>(level / 10);
  return level >= 0 && level % 10 == 0 && place < kNames.size() ? kNames[place] : "unknown";
}

// A device answers for a link that it does not have with "invalid argument" or "not supported".
bool is_active(const NvmlLibrary& library, nvml::Device device, unsigned link) {
  int active = 0;
  return library.call.nvmlDeviceGetNvLinkState != nullptr &&
         library.call.nvmlDeviceGetNvLinkState(device, link, &active) == nvml::kSuccess && active == 1;
}

MigInstance read_instance(const NvmlLibrary& library, nvml::Device device, NvmlRefusals& refusals) {
  MigInstance instance;
  instance.uuid = library.ask_text(TRIMTAB_NVML(library, nvmlDeviceGetUUID), refusals, device);
  instance.profile = mig_profile_in_name(library.ask_text(TRIMTAB_NVML(library, nvmlDeviceGetName), refusals, device));
  const auto attributes =
      library.ask<nvml::Attributes>(TRIMTAB_NVML(library, nvmlDeviceGetAttributes_v2), refusals, device);
  if (!attributes) return instance;
  if (instance.profile.empty()) instance.profile = mig_profile_of(*attributes);
  instance.multiprocessors = attributes->multiprocessors;
  instance.memory = static_cast<Bytes>(attributes->memory_mib) << 20;
  return instance;
}

}  // namespace

std::vector<NvLink> read_nvlinks(const NvmlLibrary& library, nvml::Device device, NvmlRefusals& refusals) {
  std::vector<NvLink> links;
  for (unsigned number = 0; number < nvml::kMaxNvLinks; ++number) {
    if (!is_active(library, device, number)) continue;
    NvLink link;
    link.number = number;
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

void read_mig(const NvmlLibrary& library, nvml::Device device, GpuFacts& gpu, NvmlRefusals& refusals) {
  const auto mode = library.ask_pair<unsigned>(TRIMTAB_NVML(library, nvmlDeviceGetMigMode), refusals, device);
  if (!mode) return;
  gpu.mig = mode->first == 1;
  if (!*gpu.mig) return;
  gpu.multiprocessors.reset();  // of the device as a whole; nothing runs on it as a whole now
  const auto most = library.ask<unsigned>(TRIMTAB_NVML(library, nvmlDeviceGetMaxMigDeviceCount), refusals, device);
  if (library.call.nvmlDeviceGetMigDeviceHandleByIndex == nullptr) return;
  for (unsigned index = 0; index < most.value_or(0); ++index) {
    nvml::Device instance = nullptr;
    const int code = library.call.nvmlDeviceGetMigDeviceHandleByIndex(device, index, &instance);
    if (code == nvml::kNotFound) continue;  // numbers have gaps
    if (code != nvml::kSuccess) {
      refusals.add("nvmlDeviceGetMigDeviceHandleByIndex: " + library.describe(code));
      continue;
    }
    gpu.instances.push_back(read_instance(library, instance, refusals));
  }
}

std::string mig_profile_in_name(std::string_view name) {
  constexpr std::string_view kMark = " MIG ";
  const std::size_t mark = name.rfind(kMark);
  return mark == std::string_view::npos ? "" : std::string(name.substr(mark + kMark.size()));
}

std::string mig_profile_of(const nvml::Attributes& attributes) {
  const std::string compute = attributes.compute_slices < attributes.gpu_slices
                                  ? std::to_string(attributes.compute_slices) + "c."
                                  : std::string();
  const unsigned long long gigabytes = (attributes.memory_mib + 1023) / 1024;
  return compute + std::to_string(attributes.gpu_slices) + "g." + std::to_string(gigabytes) + "gb";
}

}  // namespace trimtab::host
