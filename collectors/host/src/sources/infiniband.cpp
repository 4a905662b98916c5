#include <array>

#include "infiniband_ports.hpp"
#include "proc_text.hpp"
#include "sources/measures.hpp"
#include "sources/sources.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

struct Traffic {
  const char* file;
  const Measure* measure;
  const char* direction;
  double unit;
};
// Data is counted in words of four bytes.
constexpr std::array<Traffic, 4> kTraffic{{{"counters/port_rcv_data", &kInfinibandBytes, "receive", 4},
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

class InfinibandSource final : public Source {
 public:
  explicit InfinibandSource(std::string root) : root_(std::move(root)) {}
  [[nodiscard]] std::string_view name() const override { return "infiniband"; }

  [[nodiscard]] Result<Samples> read() override {
    Samples samples;
    for (const InfinibandPort& port : infiniband_ports(root_)) add(port, samples);
    return samples;
  }

 private:
  [[nodiscard]] std::optional<std::int64_t> number(const InfinibandPort& port, const char* file) const {
    const auto text = read_system_file(root_, port.path + file);
    return text.ok() ? parse_integer(*text) : std::nullopt;
  }

  void add(const InfinibandPort& port, Samples& samples) const {
    const std::vector<std::pair<const char*, std::string>> labels{{"device", port.device}, {"port", port.port}};
    samples.push_back({&kInfinibandUp, labels, port.active ? 1.0 : 0.0});
    if (port.bytes_per_second) samples.push_back({&kInfinibandRate, labels, *port.bytes_per_second});
    for (const Traffic& traffic : kTraffic) {
      const auto value = number(port, traffic.file);
      if (!value) continue;
      auto with_direction = labels;
      with_direction.emplace_back("direction", traffic.direction);
      samples.push_back({traffic.measure, with_direction, static_cast<double>(*value) * traffic.unit});
    }
    for (const std::string event : kEvents) {
      const auto value = number(port, event.c_str());
      if (!value) continue;
      auto with_event = labels;
      with_event.emplace_back("event", event.substr(event.find('/') + 1));
      samples.push_back({&kInfinibandEvents, with_event, static_cast<double>(*value)});
    }
  }

  const std::string root_;
};

}  // namespace

std::unique_ptr<Source> infiniband_source(const std::string& root) {
  return std::make_unique<InfinibandSource>(root);
}

}  // namespace trimtab::host
