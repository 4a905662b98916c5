#include "probes/gpu_probe.hpp"

#include <charconv>
#include <map>
#include <string>
#include <string_view>

#include "base/numbers.hpp"

namespace trimtab::agent {

namespace {

struct Gpu {
  double sm_hertz = 0;
  double watts = 0;
  double most_watts = 0;
  bool idle = false;
  std::string reasons;
};

std::string label(const host::Sample& sample, std::string_view name) {
  for (const auto& [key, value] : sample.labels) {
    if (key == name) return value;
  }
  return "";
}

void take(const host::Sample& sample, Gpu& gpu) {
  const std::string_view name = sample.measure->name;
  if (name == "trimtab_device_power_watts") gpu.watts = sample.value;
  if (name == "trimtab_device_power_limit_watts") gpu.most_watts = sample.value;
  if (name == "trimtab_device_clock_hertz" && label(sample, "clock") == "sm") gpu.sm_hertz = sample.value;
  if (name != "trimtab_device_throttled" || sample.value == 0) return;
  const std::string reason = label(sample, "reason");
  if (reason == "gpu_idle") {
    gpu.idle = true;
  } else {
    gpu.reasons += (gpu.reasons.empty() ? "" : ", ") + reason;
  }
}

std::string remark_of(const Gpu& gpu) {
  std::string text = gpu.reasons.empty() ? "" : "throttled: " + gpu.reasons;
  if (gpu.most_watts <= 0 || gpu.watts <= 0) return text;
  return text + (text.empty() ? "" : ", ") + format_number(gpu.watts, 0) + " W of " + format_number(gpu.most_watts, 0) +
         " W";
}

}  // namespace

std::vector<DeviceSpeed> gpu_speeds(const host::Samples& samples) {
  std::map<int, Gpu> gpus;
  for (const host::Sample& sample : samples) {
    const std::string device = label(sample, "device");
    int index = -1;
    const auto [end, failure] = std::from_chars(device.data(), device.data() + device.size(), index);
    const bool is_gpu = std::string_view(sample.measure->name).starts_with("trimtab_device_");
    if (is_gpu && failure == std::errc() && end == device.data() + device.size()) take(sample, gpus[index]);
  }
  std::vector<DeviceSpeed> speeds;
  for (const auto& [index, gpu] : gpus) {
    if (gpu.sm_hertz <= 0 || gpu.idle) continue;
    speeds.push_back({index, "clock", 1e9 / gpu.sm_hertz, 0, remark_of(gpu)});
  }
  return speeds;
}

}  // namespace trimtab::agent
