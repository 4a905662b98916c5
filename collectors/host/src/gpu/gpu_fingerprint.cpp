#include "gpu/gpu_fingerprint.hpp"

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/text_parts.hpp"
#include "gpu/driver_files.hpp"
#include "network_ports.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

using Values = std::set<std::string>;

void put(std::map<std::string, std::string>& layer, const char* key, const Values& values) {
  if (!values.empty()) layer[key] = joined(values, " + ");
}

// How often each value occurs: "host_bridge:4, system:24".
std::string counted(const std::map<std::string, int>& counts) {
  std::string text;
  for (const auto& [value, count] : counts) {
    text += (text.empty() ? "" : ", ") + value + ":" + std::to_string(count);
  }
  return text;
}

// The values of what is told, of all devices that answer.
Values values(const GpuInventory& inventory, const std::function<std::string(const GpuFacts&)>& value) {
  Values all;
  for (const GpuFacts& gpu : inventory.gpus) {
    if (!gpu.failure.empty()) continue;
    std::string one = value(gpu);
    if (!one.empty()) all.insert(std::move(one));
  }
  return all;
}

Values numbers(const GpuInventory& inventory, std::optional<std::int64_t> GpuFacts::*member, std::int64_t unit = 1) {
  return values(inventory, [&](const GpuFacts& gpu) {
    const auto& value = gpu.*member;
    return value ? std::to_string((*value + unit / 2) / unit) : std::string();
  });
}

void add_device(const GpuInventory& inventory, Fingerprint& fingerprint) {
  auto& device = fingerprint.device;
  put(device, "model", values(inventory, [](const GpuFacts& gpu) { return gpu.name; }));
  put(device, "compute_capability", values(inventory, [](const GpuFacts& gpu) { return gpu.compute_capability; }));
  put(device, "sm_clock_max_mhz", numbers(inventory, &GpuFacts::sm_clock_max_mhz));
  put(device, "memory_clock_max_mhz", numbers(inventory, &GpuFacts::memory_clock_max_mhz));
  put(device, "application_clock_mhz", numbers(inventory, &GpuFacts::application_clock_mhz));
  put(device, "power_limit_w", numbers(inventory, &GpuFacts::power_limit_mw, 1000));
  put(device, "ecc", values(inventory, [](const GpuFacts& gpu) {
        return gpu.ecc ? std::string(*gpu.ecc ? "on" : "off") : std::string();
      }));
  put(device, "virtualization", values(inventory, [](const GpuFacts& gpu) {
        return gpu.virtualization == "none" ? std::string() : gpu.virtualization;
      }));
}

// What a rank has: a device, or one of its MIG instances.
void add_division(const GpuInventory& inventory, Fingerprint& fingerprint) {
  Values multiprocessors = numbers(inventory, &GpuFacts::multiprocessors);
  Values memory;
  Values division;
  for (const GpuFacts& gpu : inventory.gpus) {
    if (!gpu.failure.empty()) continue;
    if (!gpu.mig.value_or(false)) {
      division.insert("off");
      if (gpu.memory) memory.insert(whole_gibibytes(*gpu.memory));
      continue;
    }
    if (gpu.instances.empty()) division.insert("on, no instances");
    for (const MigInstance& instance : gpu.instances) {
      division.insert(instance.profile);
      if (instance.multiprocessors) multiprocessors.insert(std::to_string(*instance.multiprocessors));
      if (instance.memory) memory.insert(whole_gibibytes(*instance.memory));
    }
  }
  put(fingerprint.device, "multiprocessors", multiprocessors);
  put(fingerprint.device, "memory_gib", memory);
  put(fingerprint.device, "mig", division);
}

// "4.0 to switch:18".
std::string nvlink_text(const GpuFacts& gpu) {
  std::map<std::string, int> kinds;
  for (const NvLink& link : gpu.nvlinks) {
    const char* end = link.end == NvLinkEnd::kSwitch ? "switch" : link.end == NvLinkEnd::kGpu ? "gpu" : "other";
    ++kinds[(link.version.empty() ? "unknown" : link.version) + " to " + end];
  }
  return counted(kinds);
}

const GpuFacts* by_bus(const GpuInventory& inventory, const std::string& bus_id) {
  for (const GpuFacts& gpu : inventory.gpus) {
    if (!bus_id.empty() && gpu.bus_id == bus_id) return &gpu;
  }
  return nullptr;
}

// Direct links between two GPUs, by index: "0-1:4, 0-2:4".
std::string nvlink_pairs(const GpuInventory& inventory) {
  std::map<std::string, int> pairs;
  for (const GpuFacts& gpu : inventory.gpus) {
    for (const NvLink& link : gpu.nvlinks) {
      const GpuFacts* other = by_bus(inventory, link.remote_bus_id);
      if (other == nullptr || other->index <= gpu.index) continue;  // each link once
      ++pairs[std::to_string(gpu.index) + "-" + std::to_string(other->index)];
    }
  }
  return counted(pairs);
}

void add_links(const GpuInventory& inventory, Fingerprint& fingerprint) {
  auto& fabric = fingerprint.fabric;
  int answering = 0;
  for (const GpuFacts& gpu : inventory.gpus) answering += gpu.failure.empty() ? 1 : 0;
  fabric["gpus"] = std::to_string(answering);
  put(fabric, "pcie", values(inventory, [](const GpuFacts& gpu) {
        if (!gpu.pcie_generation || !gpu.pcie_width) return std::string();
        return "gen" + std::to_string(*gpu.pcie_generation) + " x" + std::to_string(*gpu.pcie_width);
      }));
  put(fabric, "nvlink", values(inventory, nvlink_text));
  std::map<std::string, int> paths;
  for (const GpuPath& path : inventory.paths) ++paths[path.over];
  if (!paths.empty()) fabric["gpu_paths"] = counted(paths);
  const std::string pairs = nvlink_pairs(inventory);
  if (!pairs.empty()) fabric["nvlink_pairs"] = pairs;
}

// Adapters by kind and speed: "InfiniBand 400 Gb/s:8".
void add_network(const std::string& root, Fingerprint& fingerprint) {
  std::map<std::string, int> adapters;
  for (const InfinibandPort& port : infiniband_ports(root)) {
    if (!port.active || !port.bytes_per_second) continue;
    const std::string kind = port.link_layer == "Ethernet" ? "RoCE" : "InfiniBand";
    ++adapters[kind + " " + std::to_string(std::llround(*port.bytes_per_second * 8 / 1e9)) + " Gb/s"];
  }
  for (const std::string& interface : network_interfaces(root)) {
    // 0 or less where the link is down.
    const std::int64_t megabits = system_integer(root, "sys/class/net/" + interface + "/speed").value_or(0);
    if (!is_hardware(root, interface) || megabits <= 0) continue;
    ++adapters["Ethernet " + std::to_string(megabits / 1000) + " Gb/s"];
  }
  if (!adapters.empty()) fingerprint.fabric["network"] = counted(adapters);
}

}  // namespace

std::string whole_gibibytes(Bytes bytes) {
  constexpr Bytes kGibibyte = Bytes{1} << 30;
  return std::to_string((bytes + kGibibyte / 2) / kGibibyte);
}

void describe_gpus(const GpuInventory& inventory, const std::string& root, Fingerprint& fingerprint) {
  fingerprint.device["kind"] = "gpu";
  add_device(inventory, fingerprint);
  add_division(inventory, fingerprint);
  if (!inventory.driver_version.empty()) fingerprint.software["driver"] = inventory.driver_version;
  if (!inventory.cuda_version.empty()) fingerprint.software["cuda"] = inventory.cuda_version;
  add_links(inventory, fingerprint);
  if (inventory.confidential.value_or(false)) fingerprint.environment["confidential_computing"] = "on";
  add_network(root, fingerprint);
}

void describe_unreadable_gpus(const std::string& root, Fingerprint& fingerprint) {
  const std::vector<std::string> models = driver_models(root);
  fingerprint.device["kind"] = "gpu";
  fingerprint.device["nvml"] = "unreadable";  // never equal to the same node with a working NVML
  put(fingerprint.device, "model", Values(models.begin(), models.end()));
  fingerprint.fabric["gpus"] = std::to_string(gpu_device_files(root).size());
  const std::string driver = driver_version(root);
  if (!driver.empty()) fingerprint.software["driver"] = driver;
  add_network(root, fingerprint);
}

}  // namespace trimtab::host
