#include "network_ports.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "proc_text.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

constexpr std::array<std::string_view, 10> kLeftOut{"veth",    "docker", "br-",   "cni",  "cali",
                                                    "flannel", "virbr",  "dummy", "tunl", "ifb"};

bool left_out(const std::string& name) {
  return name == "lo" || name == "bonding_masters" ||
         std::ranges::any_of(kLeftOut, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string text_at(const std::string& root, const std::string& path) {
  return std::string(trimmed(system_text(root, path)));
}

}  // namespace

std::vector<InfinibandPort> infiniband_ports(const std::string& root) {
  const std::string adapters = "sys/class/infiniband";
  std::vector<InfinibandPort> ports;
  for (const std::string& device : list_system_directory(root, adapters)) {
    const std::string folder = adapters + "/" + device + "/ports";
    for (const std::string& number : list_system_directory(root, folder)) {
      InfinibandPort port{device, number, folder + "/" + number + "/", false, "", std::nullopt};
      port.active = text_at(root, port.path + "state").ends_with("ACTIVE");  // "4: ACTIVE"
      port.link_layer = text_at(root, port.path + "link_layer");
      port.bytes_per_second = parse_infiniband_rate(text_at(root, port.path + "rate"));
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

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
