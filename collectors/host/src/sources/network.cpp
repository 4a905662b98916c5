#include <array>
#include <span>

#include "network_ports.hpp"
#include "proc_text.hpp"
#include "sources/sources.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

constexpr std::size_t kMostInterfaces = 64;

struct Traffic {
  const char* file;
  const Measure* measure;
  const char* direction;
  double unit;
};
constexpr std::array<Traffic, 8> kInterfaceTraffic{{{"statistics/rx_bytes", &kNetworkBytes, "receive", 1},
                                                    {"statistics/tx_bytes", &kNetworkBytes, "transmit", 1},
                                                    {"statistics/rx_packets", &kNetworkPackets, "receive", 1},
                                                    {"statistics/tx_packets", &kNetworkPackets, "transmit", 1},
                                                    {"statistics/rx_errors", &kNetworkErrors, "receive", 1},
                                                    {"statistics/tx_errors", &kNetworkErrors, "transmit", 1},
                                                    {"statistics/rx_dropped", &kNetworkDrops, "receive", 1},
                                                    {"statistics/tx_dropped", &kNetworkDrops, "transmit", 1}}};
// Data is counted in words of four bytes.
constexpr std::array<Traffic, 4> kPortTraffic{{{"counters/port_rcv_data", &kInfinibandBytes, "receive", 4},
                                               {"counters/port_xmit_data", &kInfinibandBytes, "transmit", 4},
                                               {"counters/port_rcv_packets", &kInfinibandPackets, "receive", 1},
                                               {"counters/port_xmit_packets", &kInfinibandPackets, "transmit", 1}}};

// Of all counters those that say why a link is slow.
constexpr std::array kEvents{"counters/port_xmit_wait",
                             "counters/port_rcv_errors",
                             "counters/port_xmit_discards",
                             "counters/symbol_error",
                             "counters/link_error_recovery",
                             "counters/link_downed",
                             "counters/local_link_integrity_errors",
                             "hw_counters/out_of_sequence",
                             "hw_counters/packet_seq_err",
                             "hw_counters/local_ack_timeout_err",
                             "hw_counters/rnr_nak_retry_err",
                             "hw_counters/roce_adp_retrans",
                             "hw_counters/rx_icrc_encapsulated",
                             "hw_counters/np_cnp_sent",
                             "hw_counters/rp_cnp_handled"};

// One interface's or port's samples: what its folder does not tell is left out.
class Link final {
 public:
  Link(const std::string& root, std::string folder, Labels labels, Samples& samples)
      : root_(root), folder_(std::move(folder)), labels_(std::move(labels)), samples_(samples) {}

  void add(const Measure& measure, double value) { samples_.push_back({&measure, labels_, value}); }
  void count(const Measure& measure, const std::string& file, const char* label, const std::string& name, double unit) {
    const auto value = system_integer(root_, folder_ + file);
    if (!value) return;
    add(measure, static_cast<double>(*value) * unit);
    samples_.back().labels.emplace_back(label, name);
  }
  void count(std::span<const Traffic> all) {
    for (const Traffic& one : all) count(*one.measure, one.file, "direction", one.direction, one.unit);
  }

 private:
  const std::string& root_;
  const std::string folder_;
  const Labels labels_;
  Samples& samples_;
};

}  // namespace

Result<Samples> read_network(const std::string& root) {
  std::vector<std::string> interfaces = network_interfaces(root);
  const std::size_t left_out = interfaces.size() > kMostInterfaces ? interfaces.size() - kMostInterfaces : 0;
  interfaces.resize(interfaces.size() - left_out);
  Samples samples;
  for (const std::string& interface : interfaces) {
    const std::string folder = "sys/class/net/" + interface + "/";
    Link link(root, folder, {{"interface", interface}}, samples);
    link.add(kNetworkUp, trimmed(system_text(root, folder + "operstate")) == "up" ? 1.0 : 0.0);
    const auto megabits = system_integer(root, folder + "speed");  // -1, or an error, where the link is down
    if (megabits && *megabits > 0) link.add(kNetworkSpeed, static_cast<double>(*megabits) * 1e6 / 8);
    link.count(kInterfaceTraffic);
  }
  samples.push_back({&kNetworkLeftOut, {}, static_cast<double>(left_out)});
  return samples;
}

Result<Samples> read_infiniband(const std::string& root) {
  Samples samples;
  for (const InfinibandPort& port : infiniband_ports(root)) {
    Link link(root, port.path, {{"device", port.device}, {"port", port.port}}, samples);
    link.add(kInfinibandUp, port.active ? 1.0 : 0.0);
    if (port.bytes_per_second) link.add(kInfinibandRate, *port.bytes_per_second);
    link.count(kPortTraffic);
    for (const std::string event : kEvents) {
      link.count(kInfinibandEvents, event, "event", event.substr(event.find('/') + 1), 1);
    }
  }
  return samples;
}

}  // namespace trimtab::host
