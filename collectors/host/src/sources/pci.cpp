#include <charconv>
#include <filesystem>
#include <optional>

#include "proc_text.hpp"
#include "sources/sources.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

constexpr std::size_t kMostDevices = 64;

// Of a PCI class ("0x030200"); empty: of no kind that a job's messages go through.
std::string kind_of(std::string_view pci_class) {
  if (pci_class.starts_with("0x02")) return "network";
  return pci_class.starts_with("0x03") || pci_class.starts_with("0x12") ? "device" : "";
}

// "16.0 GT/s PCIe" in transfers a second.
std::optional<double> speed_in(std::string_view text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool known =
      failure == std::errc() && text.substr(static_cast<std::size_t>(end - text.data())).starts_with(" GT/s");
  return known && value > 0 ? std::optional(value * 1e9) : std::nullopt;
}

std::optional<double> lanes_in(std::string_view text) {
  const auto lanes = parse_integer(trimmed(text));
  return lanes && *lanes > 0 ? std::optional(static_cast<double>(*lanes)) : std::nullopt;
}

class PciDevice final {
 public:
  PciDevice(const std::string& root, const std::string& address, std::string kind, Samples& samples)
      : root_(root), folder_("sys/bus/pci/devices/" + address + "/"), samples_(samples) {
    labels_ = {{"address", address}, {"kind", std::move(kind)}, {"name", name()}};
    std::error_code failure;
    port_ = std::filesystem::canonical(system_path(root, folder_), failure).parent_path().string();
  }

  // The slot's port has bounds of its own: what a card has beyond them is no fault of the link.
  void read() {
    give(kPciLanes, kPciLanesMax, "link_width", lanes_in);
    give(kPciSpeed, kPciSpeedMax, "link_speed", speed_in);
    for (const auto& [file, total, severity] : kReports) {
      const auto errors = parse_keyed_integer(system_text(root_, folder_ + file), total);
      if (!errors) continue;
      add(kPciErrors, static_cast<double>(*errors));
      samples_.back().labels.emplace_back("severity", severity);
    }
  }

 private:
  struct Report {
    const char* file;
    const char* total;
    const char* severity;
  };
  static constexpr Report kReports[] = {{"aer_dev_correctable", "TOTAL_ERR_COR", "correctable"},
                                        {"aer_dev_nonfatal", "TOTAL_ERR_NONFATAL", "nonfatal"},
                                        {"aer_dev_fatal", "TOTAL_ERR_FATAL", "fatal"}};

  // What programs know it by: "mlx5_0", "eth0".
  [[nodiscard]] std::string name() const {
    for (const char* const known_as : {"infiniband", "net"}) {
      const auto names = list_system_directory(root_, folder_ + known_as);
      if (!names.empty()) return names.front();
    }
    return "";
  }

  void add(const Measure& measure, double value) { samples_.push_back({&measure, labels_, value}); }

  template <typename Parse>
  void give(const Measure& now, const Measure& most, const std::string& file, Parse parse) {
    const auto current = parse(system_text(root_, folder_ + "current_" + file));
    if (!current) return;
    add(now, *current);
    const auto own = parse(system_text(root_, folder_ + "max_" + file));
    const auto of_port = parse(system_text(port_, "max_" + file));
    if (own) add(most, of_port ? std::min(*own, *of_port) : *own);
  }

  const std::string& root_;
  const std::string folder_;
  std::string port_;  // the path of the one above it
  Labels labels_;
  Samples& samples_;
};

}  // namespace

Result<Samples> read_pci(const std::string& root) {
  Samples samples;
  std::size_t left = kMostDevices;
  for (const std::string& address : list_system_directory(root, "sys/bus/pci/devices")) {
    const std::string kind = kind_of(system_text(root, "sys/bus/pci/devices/" + address + "/class"));
    if (kind.empty()) continue;
    PciDevice(root, address, kind, samples).read();
    if (--left == 0) break;
  }
  return samples;
}

}  // namespace trimtab::host
