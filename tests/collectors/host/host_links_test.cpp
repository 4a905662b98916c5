// Links of a node: what is read of them, what is called worse than it was, and what is not.

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/random.hpp"
#include "host/link_watch.hpp"
#include "nvml_script.hpp"
#include "sources/sources.hpp"

using namespace trimtab;
using namespace trimtab::host;
using trimtab::test::NvmlScript;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

// A made /sys, gone with the test.
class Tree {
 public:
  Tree() : root_(fs::temp_directory_path() / ("trimtab-links-" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "sys/bus/pci/devices");
  }
  ~Tree() { fs::remove_all(root_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  // A card behind a port of its own, as the kernel's links show it.
  void add_card(const std::string& address, const std::string& pci_class, const std::string& port_lanes) const {
    const std::string port = "sys/devices/pci0000:00/0000:00:01.0/";
    write(port + "max_link_width", port_lanes);
    write(port + "max_link_speed", "32.0 GT/s PCIe");
    write(port + address + "/class", pci_class);
    fs::create_directory_symlink("../../../devices/pci0000:00/0000:00:01.0/" + address,
                                 root_ / "sys/bus/pci/devices" / address);
    set_link(address, "16", "16.0 GT/s PCIe");
    write("sys/bus/pci/devices/" + address + "/max_link_width", "16");
    write("sys/bus/pci/devices/" + address + "/max_link_speed", "16.0 GT/s PCIe");
  }
  void set_link(const std::string& address, const std::string& lanes, const std::string& speed) const {
    write("sys/bus/pci/devices/" + address + "/current_link_width", lanes);
    write("sys/bus/pci/devices/" + address + "/current_link_speed", speed);
  }
  void add_port(const std::string& device) const {
    const std::string port = "sys/class/infiniband/" + device + "/ports/1/";
    write(port + "state", "4: ACTIVE");
    write(port + "rate", "400 Gb/sec (4X NDR)");
    for (const char* counter : {"port_rcv_data", "port_xmit_data", "symbol_error", "port_rcv_errors", "link_downed"}) {
      write(port + "counters/" + counter, "0");
    }
    for (const char* counter : {"out_of_sequence", "packet_seq_err", "local_ack_timeout_err"}) {
      write(port + "hw_counters/" + counter, "0");
    }
  }
  [[nodiscard]] std::string root() const { return root_.string(); }

 private:
  fs::path root_;
};

double value_of(const Samples& samples, const Measure& measure, const std::string& label, const std::string& wanted) {
  for (const Sample& one : samples) {
    for (const auto& [name, value] : one.labels) {
      if (one.measure == &measure && name == label && value == wanted) return one.value;
    }
  }
  return -1;
}

// A watch that is told readings every five seconds.
struct Watched {
  LinkWatch watch;
  Nanoseconds now{0};

  void add(const Samples& samples) {
    watch.add(samples, now);
    now += 5s;
  }
  void add(const Samples& samples, int windows) {
    for (int i = 0; i < 2 * windows; ++i) add(samples);
  }
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const LinkFault& one : watch.faults()) all += to_text(one) + "\n";
    return all;
  }
};

Sample port_sample(const Measure& measure, double value) {
  return {&measure, {{"device", "mlx5_0"}, {"port", "1"}}, value};
}

// One port of an adapter whose traffic and errors grow as told, window by window.
struct Port {
  Watched watched;
  double bytes = 0;
  double errors = 0;

  void window(double sent, double failed) {
    for (int i = 0; i < 2; ++i) {
      bytes += sent / 2;
      errors += failed / 2;
      Sample counted = port_sample(kInfinibandEvents, errors);
      counted.labels.emplace_back("event", "symbol_error");
      watched.add({port_sample(kInfinibandUp, 1), port_sample(kInfinibandBytes, bytes), counted});
    }
  }
  [[nodiscard]] bool blamed() const { return !watched.watch.faults().empty(); }
};

}  // namespace

TEST_CASE("PCIe links are read with the most that card and slot have, and what was reported of them", "[links]") {
  const Tree tree;
  tree.add_card("0000:3b:00.0", "0x020700", "8");
  tree.write("sys/bus/pci/devices/0000:3b:00.0/infiniband/mlx5_0/fw_ver", "28");
  tree.write("sys/bus/pci/devices/0000:3b:00.0/aer_dev_correctable", "RxErr 0\nBadTLP 7\nTOTAL_ERR_COR 7");
  tree.write("sys/bus/pci/devices/0000:00:1f.0/class", "0x060100");  // a bridge
  tree.set_link("0000:3b:00.0", "8", "8.0 GT/s PCIe");
  const auto samples = read_pci(tree.root());
  REQUIRE(samples.ok());
  CHECK(value_of(*samples, kPciLanes, "name", "mlx5_0") == 8);
  CHECK(value_of(*samples, kPciLanesMax, "name", "mlx5_0") == 8);  // the slot's
  CHECK(value_of(*samples, kPciSpeed, "address", "0000:3b:00.0") == 8e9);
  CHECK(value_of(*samples, kPciSpeedMax, "address", "0000:3b:00.0") == 16e9);
  CHECK(value_of(*samples, kPciErrors, "severity", "correctable") == 7);
  CHECK(value_of(*samples, kPciErrors, "severity", "fatal") == -1);
  CHECK(samples->size() == 5);
  const auto below = below_their_best(*samples);
  REQUIRE(below.size() == 1);
  CHECK(to_text(below[0]) == "PCIe of mlx5_0 at 0000:3b:00.0 runs at 8 GT/s, and could at 16 GT/s");
}

TEST_CASE("NVLinks tell their state and errors, PCIe its maxima, replays and traffic", "[links]") {
  NvmlScript script("h100_x2");
  script.set("1 nvmlDeviceGetNvLinkErrorCounter/1/2", "12");
  script.set("* nvmlDeviceGetPcieReplayCounter", "3");
  script.set("* nvmlDeviceGetPcieThroughput/1", "250");
  const auto source = gpu_source(FAKE_NVML);
  auto samples = source->read();
  REQUIRE(samples.ok());
  CHECK(value_of(*samples, kDeviceNvLinkErrors, "kind", "crc_flit") == 12);
  CHECK(value_of(*samples, kDevicePcieWidthMax, "device", "0") == 16);
  CHECK(value_of(*samples, kDevicePcieGenerationMax, "device", "0") == 5);
  CHECK(value_of(*samples, kDevicePcieReplays, "device", "1") == 3);
  CHECK(value_of(*samples, kDevicePcieTraffic, "direction", "receive") == 250e3);
  CHECK(value_of(*samples, kDeviceNvLinkUp, "link", "1") == 1);
  CHECK(value_of(*samples, kDeviceNvLinkUp, "link", "2") == -1);  // never was
  script.set("* nvmlDeviceGetNvLinkState/1", "0");
  samples = source->read();
  CHECK(value_of(*samples, kDeviceNvLinkUp, "link", "1") == 0);
}

TEST_CASE("an NVLink that is not active any more is named, and not before it has lasted", "[links]") {
  NvmlScript script("h100_x2");
  const auto source = gpu_source(FAKE_NVML);
  Watched one;
  one.add(*source->read(), 4);
  CHECK(one.text().empty());
  script.set("1 nvmlDeviceGetNvLinkState/1", "0");
  one.add(*source->read(), 1);
  CHECK(one.text().empty());
  one.add(*source->read(), 3);
  CHECK(one.text() == "NVLink 1 of GPU 1 is not active, and was\n");
  const LinkFault fault = one.watch.faults().front();
  CHECK(fault.device == 1);
  CHECK(fault.within);
  CHECK_FALSE(fault.across);
  CHECK(fault.confidence == 0.999);
  script.set("1 nvmlDeviceGetNvLinkState/1", "1");
  one.add(*source->read(), 2);
  CHECK(one.text().empty());
}

TEST_CASE("PCIe of a GPU may slow down at rest, but not while it computes", "[links]") {
  NvmlScript script("h100_x2");
  const auto source = gpu_source(FAKE_NVML);
  const auto read = [&](const char* busy, const char* generation, const char* lanes) {
    script.set("* nvmlDeviceGetUtilizationRates", busy);
    script.set("* nvmlDeviceGetCurrPcieLinkGeneration", generation);
    script.set("* nvmlDeviceGetCurrPcieLinkWidth", lanes);
    return source->read().value();
  };
  Watched one;
  one.add(read("97 41", "5", "16"), 3);
  for (int i = 0; i < 20; ++i) {
    one.add(read("0 0", "1", "8"), 2);  // power saving
    one.add(read("97 41", "1", "16"));  // on its way back
    one.add(read("97 41", "5", "16"));
  }
  CHECK(one.text().empty());
  one.add(read("97 41", "4", "8"), 4);
  CHECK(one.text() ==
        "PCIe of GPU 0 runs at generation 4, and ran at generation 5\n"
        "PCIe of GPU 0 runs at 8 lanes, and ran at 16 lanes\n"
        "PCIe of GPU 1 runs at generation 4, and ran at generation 5\n"
        "PCIe of GPU 1 runs at 8 lanes, and ran at 16 lanes\n");
  CHECK(one.watch.faults().front().across);
  CHECK_FALSE(one.watch.faults().front().within);  // its NVLinks carry that
}

TEST_CASE("ports of adapters and their cards are watched by what the kernel says of them", "[links]") {
  const Tree tree;
  tree.add_port("mlx5_0");
  tree.add_card("0000:3b:00.0", "0x020700", "16");
  const std::string port = "sys/class/infiniband/mlx5_0/ports/1/";
  Watched one;
  int sent = 0;
  int errors = 0;
  const auto read = [&](int windows, int errors_each) {
    for (int i = 0; i < 2 * windows; ++i) {
      tree.write(port + "counters/port_xmit_data", std::to_string(sent += 1000));
      tree.write(port + "hw_counters/local_ack_timeout_err", std::to_string(errors += errors_each));
      Samples samples = read_infiniband(tree.root()).value();
      const Samples cards = read_pci(tree.root()).value();
      samples.insert(samples.end(), cards.begin(), cards.end());
      one.add(samples);
    }
  };
  read(40, 0);
  CHECK(one.text().empty());
  tree.write(port + "rate", "200 Gb/sec (4X HDR)");
  tree.set_link("0000:3b:00.0", "4", "16.0 GT/s PCIe");
  read(7, 3);
  CHECK(one.text() ==
        "PCIe of 0000:3b:00.0 runs at 4 lanes, and ran at 16 lanes\n"
        "port 1 of mlx5_0 runs at 200 Gb/s, and ran at 400 Gb/s\n"
        "port 1 of mlx5_0 counts 36 local_ack_timeout_err a minute, and 0 at most before\n");
  const LinkFault counted = one.watch.faults().back();
  CHECK(counted.confidence > 0.9999);
  CHECK(counted.confidence < 1);
  CHECK(counted.across);
  CHECK_FALSE(counted.within);
  read(8, 0);
  CHECK(one.text().find("local_ack_timeout_err") == std::string::npos);
  tree.write(port + "state", "1: DOWN");
  read(3, 0);
  CHECK(one.text().find("port 1 of mlx5_0 is not active, and was") != std::string::npos);
}

TEST_CASE("errors that rise beyond their own past are found, however many there were", "[links]") {
  const double rate = GENERATE(0.0, 0.3, 20.0);
  int missed = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    Port port;
    const auto poisson = [&random](double mean) {
      double count = 0;
      for (double left = -std::log(1 - random.uniform()); left < mean; left -= std::log(1 - random.uniform())) ++count;
      return count;
    };
    for (int i = 0; i < 60; ++i) port.window(1e9, poisson(rate));
    CHECK_FALSE(port.blamed());
    for (int i = 0; i < 7; ++i) port.window(1e9, poisson(3 * rate + 15));
    missed += port.blamed() ? 0 : 1;
  }
  CHECK(missed <= 5);
}

// The bound of the header's comment, 1 of 324,632, is for a look. Each window is looked at here, so a false alarm may
// come once in thousands of windows of one counter.
TEST_CASE("noise blames no link, whatever its kind", "[links]") {
  const std::string kind =
      GENERATE("Poisson", "bursts", "heavy tails", "a job that comes and goes", "a job that grows");
  const int seeds = 100;
  int blamed = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Random random(seed);
    Port port;
    double level = 1;
    bool seen = false;
    for (int i = 0; i < 200; ++i) {
      if (kind == "a job that comes and goes" && i % 25 == 0) level = random.uniform() < 0.5 ? 1e-6 : 1;
      if (kind == "a job that grows" && i % 40 == 0) level *= 2;
      const double tail = std::pow(1 - random.uniform(), -1.2);  // no mean, hardly
      const double spread = 0.5 + random.uniform();
      double errors = 10 * level * spread;
      if (kind == "bursts") errors = random.uniform() < 0.1 ? 500 * tail : 0;
      if (kind == "heavy tails") errors = tail;
      port.window(1e9 * level, std::round(errors));
      seen = seen || port.blamed();
    }
    blamed += seen ? 1 : 0;
  }
  INFO(kind);
  CHECK(blamed <= 1);
}
