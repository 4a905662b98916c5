#include <array>
#include <optional>

#include "network_interfaces.hpp"
#include "proc_text.hpp"
#include "sources/measures.hpp"
#include "sources/sources.hpp"
#include "system_file.hpp"
#include "text_fields.hpp"

namespace trimtab::host {

namespace {

constexpr std::size_t kMost = 64;

struct Counter {
  const char* file;
  const Measure* measure;
  const char* direction;
};
constexpr std::array<Counter, 8> kCounters{{{"rx_bytes", &kNetworkBytes, "receive"},
                                            {"tx_bytes", &kNetworkBytes, "transmit"},
                                            {"rx_packets", &kNetworkPackets, "receive"},
                                            {"tx_packets", &kNetworkPackets, "transmit"},
                                            {"rx_errors", &kNetworkErrors, "receive"},
                                            {"tx_errors", &kNetworkErrors, "transmit"},
                                            {"rx_dropped", &kNetworkDrops, "receive"},
                                            {"tx_dropped", &kNetworkDrops, "transmit"}}};

class NetworkSource final : public Source {
 public:
  explicit NetworkSource(std::string root) : root_(std::move(root)) {}
  [[nodiscard]] std::string_view name() const override { return "network"; }

  [[nodiscard]] Result<Samples> read() override {
    std::vector<std::string> interfaces = network_interfaces(root_);
    const std::size_t left_out = interfaces.size() > kMost ? interfaces.size() - kMost : 0;
    interfaces.resize(interfaces.size() - left_out);
    Samples samples;
    for (const std::string& interface : interfaces) add(interface, samples);
    samples.push_back({&kNetworkLeftOut, {}, static_cast<double>(left_out)});
    return samples;
  }

 private:
  [[nodiscard]] std::string text(const std::string& interface, const std::string& file) const {
    auto content = read_system_file(root_, "sys/class/net/" + interface + "/" + file);
    return content.ok() ? std::move(content).value() : std::string();
  }

  void add(const std::string& interface, Samples& samples) const {
    const std::string_view state = "up";
    samples.push_back(
        {&kNetworkUp, {{"interface", interface}}, trim(text(interface, "operstate")) == state ? 1.0 : 0.0});
    const auto megabits = parse_integer(text(interface, "speed"));  // -1, or an error, where the link is down
    if (megabits && *megabits > 0) {
      samples.push_back({&kNetworkSpeed, {{"interface", interface}}, static_cast<double>(*megabits) * 1e6 / 8});
    }
    for (const Counter& counter : kCounters) {
      const auto value = parse_integer(text(interface, std::string("statistics/") + counter.file));
      if (!value) continue;
      samples.push_back(
          {counter.measure, {{"interface", interface}, {"direction", counter.direction}}, static_cast<double>(*value)});
    }
  }

  const std::string root_;
};

}  // namespace

std::unique_ptr<Source> network_source(const std::string& root) {
  return std::make_unique<NetworkSource>(root);
}

}  // namespace trimtab::host
