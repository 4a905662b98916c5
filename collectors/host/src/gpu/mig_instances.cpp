#include "gpu/mig_instances.hpp"

namespace trimtab::host {

namespace {

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
