#include "host/amd_gpus.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>

#include "proc_text.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

constexpr Bytes kLeastMemory = Bytes{8} << 30;
constexpr std::string_view kAmd = "0x1002";  // PCI's number of the maker

// "simd_count 1216" of a KFD properties file; 0 where it is not there.
std::int64_t property(const std::string& text, std::string_view name) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::vector<std::string_view> both = words(line);
    if (both.size() == 2 && both[0] == name) return parse_integer(both[1]).value_or(0);
  }
  return 0;
}

// 90402 -> "gfx942": major, minor and stepping, the last two in hexadecimal.
std::string architecture(std::int64_t version) {
  if (version <= 0 || version > 9'999'999) return "";
  char text[32];
  std::snprintf(text, sizeof(text), "gfx%lld%llx%llx", static_cast<long long>(version / 10'000),
                static_cast<unsigned long long>(version / 100 % 100), static_cast<unsigned long long>(version % 100));
  return text;
}

// Memory that the processor sees (1) and that it does not (2).
Bytes own_memory(const std::string& root, const std::string& node) {
  Bytes memory = 0;
  for (const std::string& bank : list_system_directory(root, node + "/mem_banks")) {
    const std::string text = system_text(root, node + "/mem_banks/" + bank + "/properties");
    const std::int64_t heap = property(text, "heap_type");
    if (heap == 1 || heap == 2) memory += property(text, "size_in_bytes");
  }
  return memory;
}

std::vector<AmdGpu> of_kfd(const std::string& root) {
  const std::string nodes = "sys/class/kfd/kfd/topology/nodes";
  std::vector<AmdGpu> gpus;
  for (const std::string& name : list_system_directory(root, nodes)) {
    const std::string node = nodes + "/" + name;
    const std::string text = system_text(root, node + "/properties");
    const Bytes memory = own_memory(root, node);
    if (property(text, "simd_count") == 0 || memory < kLeastMemory) continue;
    gpus.push_back({architecture(property(text, "gfx_target_version")), memory});
  }
  return gpus;
}

// Where nothing but graphics is enabled: "card0", and not its outputs "card0-DP-1".
std::vector<AmdGpu> of_display_driver(const std::string& root) {
  std::vector<AmdGpu> gpus;
  for (const std::string& name : list_system_directory(root, "sys/class/drm")) {
    if (!name.starts_with("card") || name.find('-') != std::string::npos) continue;
    const std::string device = "sys/class/drm/" + name + "/device/";
    const std::string vendor(trimmed(system_text(root, device + "vendor")));
    const Bytes memory = system_integer(root, device + "mem_info_vram_total").value_or(0);
    if (vendor == kAmd && memory >= kLeastMemory) gpus.push_back({"", memory});
  }
  return gpus;
}

}  // namespace

std::vector<AmdGpu> find_amd_gpus(const std::string& root) {
  std::vector<AmdGpu> gpus = of_kfd(root);
  return gpus.empty() ? of_display_driver(root) : gpus;
}

std::string amd_gpus_text(const std::vector<AmdGpu>& gpus) {
  std::map<std::string, int> kinds;
  for (const AmdGpu& gpu : gpus) ++kinds[gpu.architecture.empty() ? "GPU" : gpu.architecture];
  std::string text;
  for (const auto& [kind, count] : kinds) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " x AMD " + kind;
  }
  return text;
}

bool can_open_amd_gpus(const std::string& root) {
  return ::access(system_path(root, "dev/kfd").c_str(), R_OK | W_OK) == 0;
}

}  // namespace trimtab::host
