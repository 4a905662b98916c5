#include "network_interfaces.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "system_file.hpp"

namespace trimtab::host {

namespace {

constexpr std::array<std::string_view, 10> kLeftOut{"veth",    "docker", "br-",   "cni",  "cali",
                                                    "flannel", "virbr",  "dummy", "tunl", "ifb"};

bool left_out(const std::string& name) {
  return name == "lo" || name == "bonding_masters" ||
         std::ranges::any_of(kLeftOut, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::vector<std::string> network_interfaces(const std::string& root) {
  std::vector<std::string> names = list_system_directory(root, "sys/class/net");
  std::erase_if(names, left_out);
  std::stable_partition(names.begin(), names.end(), [&](const std::string& name) { return is_hardware(root, name); });
  return names;
}

bool is_hardware(const std::string& root, const std::string& interface) {
  return system_path_exists(root, "sys/class/net/" + interface + "/device");
}

}  // namespace trimtab::host
