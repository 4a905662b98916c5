#include "nvml.hpp"

#include <array>

namespace trimtab::bench::cuda {

namespace {

constexpr int kSuccess = 0;
constexpr unsigned kSmClock = 1;
constexpr unsigned kMemoryClock = 2;

template <typename Value, typename Function, typename... Arguments>
Value read(Function* function, Arguments... arguments) {
  Value value = 0;
  if (function == nullptr || function(arguments..., &value) != kSuccess) return 0;
  return value;
}

}  // namespace

std::optional<Nvml> Nvml::open(const std::string& pci_bus_id) {
  auto library = DynamicLibrary::open({"libnvidia-ml.so.1"});
  if (!library.ok()) return std::nullopt;
  Nvml nvml(*library);
  auto* const start = nvml.library_.find<Result()>("nvmlInit_v2");
  auto* const find = nvml.library_.find<Result(const char*, Handle**)>("nvmlDeviceGetHandleByPciBusId_v2");
  if (start == nullptr || find == nullptr || start() != kSuccess) return std::nullopt;
  if (find(pci_bus_id.c_str(), &nvml.device_) != kSuccess) return std::nullopt;
  nvml.load(nvml.clock_, "nvmlDeviceGetClockInfo");
  nvml.load(nvml.power_, "nvmlDeviceGetPowerUsage");
  nvml.load(nvml.throttle_, "nvmlDeviceGetCurrentClocksThrottleReasons");
  nvml.load(nvml.memory_, "nvmlDeviceGetMemoryInfo");
  nvml.load(nvml.driver_, "nvmlSystemGetDriverVersion");
  return nvml;
}

ClockReading Nvml::clocks() const {
  ClockReading reading;
  reading.sm_mhz = read<unsigned>(clock_, device_, kSmClock);
  reading.memory_mhz = read<unsigned>(clock_, device_, kMemoryClock);
  reading.power_milliwatts = read<unsigned>(power_, device_);
  reading.throttle_reasons = read<unsigned long long>(throttle_, device_);
  return reading;
}

Bytes Nvml::used_bytes() const {
  Memory memory{};
  if (memory_ == nullptr || memory_(device_, &memory) != kSuccess) return 0;
  return static_cast<Bytes>(memory.used);
}

std::string Nvml::driver_version() const {
  std::array<char, 80> text{};
  if (driver_ == nullptr || driver_(text.data(), static_cast<unsigned>(text.size())) != kSuccess) return "";
  return text.data();
}

}  // namespace trimtab::bench::cuda
