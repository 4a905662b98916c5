#include "infiniband_ports.hpp"

#include "machine_text.hpp"
#include "system_file.hpp"
#include "text_fields.hpp"

namespace trimtab::host {

namespace {

std::string text(const std::string& root, const std::string& path) {
  const auto content = read_system_file(root, path);
  return content.ok() ? std::string(trim(*content)) : std::string();
}

}  // namespace

std::vector<InfinibandPort> infiniband_ports(const std::string& root) {
  const std::string adapters = "sys/class/infiniband";
  std::vector<InfinibandPort> ports;
  for (const std::string& device : list_system_directory(root, adapters)) {
    const std::string folder = adapters + "/" + device + "/ports";
    for (const std::string& number : list_system_directory(root, folder)) {
      InfinibandPort port{device, number, folder + "/" + number + "/", false, "", std::nullopt};
      port.active = text(root, port.path + "state").ends_with("ACTIVE");  // "4: ACTIVE"
      port.link_layer = text(root, port.path + "link_layer");
      port.bytes_per_second = parse_infiniband_rate(text(root, port.path + "rate"));
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

}  // namespace trimtab::host
