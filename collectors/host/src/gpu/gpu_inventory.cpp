#include "host/gpu_inventory.hpp"

#include <array>
#include <future>
#include <span>
#include <thread>

#include "gpu/gpu_layout.hpp"

namespace trimtab::host {

namespace {

using nvml::Device;

std::optional<std::int64_t> widened(const std::optional<unsigned>& value) {
  return value ? std::optional<std::int64_t>(*value) : std::nullopt;
}

constexpr std::array kComputeModes{"default", "exclusive_thread", "prohibited", "exclusive_process"};
constexpr std::array kVirtualizations{"none", "passthrough", "vgpu", "host_vgpu", "host_vsga"};

// Empty where it is not told.
std::string mode_named(std::span<const char* const> names, const std::optional<int>& mode) {
  if (!mode) return "";
  const auto place = static_cast<std::size_t>(*mode);
  return place < names.size() ? names[place] : "unknown";
}

// FP32 cores of a multiprocessor by compute capability (CUDA C++ Programming Guide, "Compute Capabilities"); 0 for one
// that is not known here. NVML tells the cores of a device, and its multiprocessors only of a MIG instance.
std::int64_t cores_per_multiprocessor(int major, int minor) {
  if (major == 7) return 64;
  if (major == 8) return minor == 0 ? 64 : 128;
  return major == 9 || major == 10 || major == 12 ? 128 : 0;
}

void read_identity(const NvmlLibrary& library, Device device, GpuFacts& gpu, NvmlRefusals& refusals) {
  gpu.name = library.ask_text(TRIMTAB_NVML(library, nvmlDeviceGetName), refusals, device);
  gpu.uuid = library.ask_text(TRIMTAB_NVML(library, nvmlDeviceGetUUID), refusals, device);
  const auto pci = library.ask<nvml::PciInfo>(TRIMTAB_NVML(library, nvmlDeviceGetPciInfo_v3), refusals, device);
  if (pci) gpu.bus_id = pci->bus_id;
}

void read_size(const NvmlLibrary& library, Device device, GpuFacts& gpu, NvmlRefusals& refusals) {
  const auto memory = library.ask<nvml::Memory>(TRIMTAB_NVML(library, nvmlDeviceGetMemoryInfo), refusals, device);
  if (memory) gpu.memory = static_cast<Bytes>(memory->total);
  const auto capability =
      library.ask_pair<int>(TRIMTAB_NVML(library, nvmlDeviceGetCudaComputeCapability), refusals, device);
  if (!capability) return;
  gpu.compute_capability = std::to_string(capability->first) + "." + std::to_string(capability->second);
  const std::int64_t each = cores_per_multiprocessor(capability->first, capability->second);
  const auto cores = library.ask<unsigned>(TRIMTAB_NVML(library, nvmlDeviceGetNumGpuCores), refusals, device);
  if (cores && each > 0) gpu.multiprocessors = *cores / each;
}

void read_limits(const NvmlLibrary& library, Device device, GpuFacts& gpu, NvmlRefusals& refusals) {
  const auto most = [&](nvml::ClockType clock) {
    return widened(
        library.ask<unsigned>(TRIMTAB_NVML(library, nvmlDeviceGetMaxClockInfo), refusals, device, int{clock}));
  };
  gpu.sm_clock_max_mhz = most(nvml::kClockSm);
  gpu.memory_clock_max_mhz = most(nvml::kClockMemory);
  gpu.application_clock_mhz = widened(library.ask<unsigned>(TRIMTAB_NVML(library, nvmlDeviceGetClock), refusals, device,
                                                            int{nvml::kClockSm}, int{nvml::kClockApplicationTarget}));
  gpu.power_limit_mw =
      widened(library.ask<unsigned>(TRIMTAB_NVML(library, nvmlDeviceGetEnforcedPowerLimit), refusals, device));
  gpu.pcie_generation =
      widened(library.ask<unsigned>(TRIMTAB_NVML(library, nvmlDeviceGetMaxPcieLinkGeneration), refusals, device));
  gpu.pcie_width =
      widened(library.ask<unsigned>(TRIMTAB_NVML(library, nvmlDeviceGetMaxPcieLinkWidth), refusals, device));
}

void read_modes(const NvmlLibrary& library, Device device, GpuFacts& gpu, NvmlRefusals& refusals) {
  const auto ecc = library.ask_pair<int>(TRIMTAB_NVML(library, nvmlDeviceGetEccMode), refusals, device);
  if (ecc) gpu.ecc = ecc->first == 1;
  gpu.compute_mode =
      mode_named(kComputeModes, library.ask<int>(TRIMTAB_NVML(library, nvmlDeviceGetComputeMode), refusals, device));
  gpu.virtualization = mode_named(
      kVirtualizations, library.ask<int>(TRIMTAB_NVML(library, nvmlDeviceGetVirtualizationMode), refusals, device));
}

GpuFacts read_gpu(const NvmlLibrary& library, unsigned index, Device& device) {
  GpuFacts gpu;
  gpu.index = index;
  const int code = library.call.nvmlDeviceGetHandleByIndex_v2(index, &device);
  if (code != nvml::kSuccess) {
    device = nullptr;
    gpu.failure = library.describe(code);
    return gpu;
  }
  NvmlRefusals refusals;
  read_identity(library, device, gpu, refusals);
  read_size(library, device, gpu, refusals);
  read_limits(library, device, gpu, refusals);
  read_modes(library, device, gpu, refusals);
  read_mig(library, device, gpu, refusals);
  gpu.nvlinks = read_nvlinks(library, device, refusals);
  gpu.refusals = refusals.take();
  return gpu;
}

void read_system(const NvmlLibrary& library, GpuInventory& inventory) {
  NvmlRefusals ignored;  // what is not told is missing
  inventory.driver_version = library.ask_text(TRIMTAB_NVML(library, nvmlSystemGetDriverVersion), ignored);
  const auto cuda = library.ask<int>(TRIMTAB_NVML(library, nvmlSystemGetCudaDriverVersion_v2), ignored);
  if (cuda) inventory.cuda_version = std::to_string(*cuda / 1000) + "." + std::to_string(*cuda % 1000 / 10);
  const auto state =
      library.ask<nvml::ConfidentialState>(TRIMTAB_NVML(library, nvmlSystemGetConfComputeState), ignored);
  if (!state) return;
  inventory.confidential = state->feature == 1;
  inventory.confidential_open = state->dev_tools == 1;
}

GpuInventory not_readable(const Error& error) {
  GpuInventory inventory;
  inventory.access = error.kind == ErrorKind::kNo ? GpuAccess::kAbsent : GpuAccess::kUnreadable;
  inventory.reason = error.message;
  return inventory;
}

}  // namespace

GpuInventory await_gpu_inventory(const std::string& name) {
  const auto opened = NvmlLibrary::open(name);
  if (!opened.ok()) return not_readable(opened.error());
  const NvmlLibrary& library = **opened;
  unsigned count = 0;
  const int code = library.call.nvmlDeviceGetCount_v2(&count);
  if (code != nvml::kSuccess)
    return not_readable(unavailable("NVML does not count its GPUs: " + library.describe(code)));
  if (count == 0) return not_readable(no("NVML sees no GPU"));
  GpuInventory inventory;
  inventory.access = GpuAccess::kReadable;
  read_system(library, inventory);
  std::vector<Device> devices(count);
  for (unsigned index = 0; index < count; ++index) inventory.gpus.push_back(read_gpu(library, index, devices[index]));
  inventory.paths = read_gpu_paths(library, devices);
  return inventory;
}

GpuInventory read_gpu_inventory(const std::string& library, Nanoseconds limit) {
  // The call that does not come back goes on, on a thread that is left behind.
  std::packaged_task<GpuInventory()> task([library] { return await_gpu_inventory(library); });
  std::future<GpuInventory> inventory = task.get_future();
  std::thread(std::move(task)).detach();
  if (inventory.wait_for(limit) == std::future_status::ready) return inventory.get();
  return not_readable(unavailable("NVML has not answered within " + format_duration(limit) +
                                  ": a GPU may have fallen off its bus; look at the kernel's log"));
}

}  // namespace trimtab::host
