#include "estimates/hardware.hpp"

#include <cmath>

#include <catch2/catch.hpp>

namespace trimtab::estimates {
namespace {

TEST_CASE("a GPU is known by the names that people write") {
  const auto named = [](const char* words) { return gpu_by_name(words).value().name; };
  CHECK(named("H100") == "H100-SXM5-80GB");
  CHECK(named("h100-sxm-80gb") == "H100-SXM5-80GB");
  CHECK(named("NVIDIA H100 80GB") == "H100-SXM5-80GB");
  CHECK(named("H100 PCIe") == "H100-PCIe-80GB");
  CHECK(named("A100-SXM4-40GB") == "A100-SXM4-40GB");
  CHECK(named("a100") == "A100-SXM4-80GB");
  CHECK(named("RTX 4090") == "RTX-4090");
  CHECK(named("B200") == "B200-SXM");
  CHECK(named("GB200") == "GB200");
  const auto unknown = gpu_by_name("H900");
  REQUIRE_FALSE(unknown.ok());
  CHECK_THAT(unknown.error().message, Catch::Contains("H900") && Catch::Contains("H100-SXM5-80GB"));
  CHECK_FALSE(gpu_by_name("").ok());
}

TEST_CASE("every GPU of the table is found by its own name, and has what an estimate divides by") {
  for (const Gpu& gpu : gpus()) {
    INFO(gpu.name);
    CHECK(gpu_by_name(gpu.name).value().name == gpu.name);
    CHECK(gpu.half_flops > 0);
    CHECK(gpu.memory > 0);
    CHECK(gpu.memory_bandwidth > 0);
    CHECK(gpu.pcie_bandwidth > 0);
    CHECK(gpu.multiprocessors > 0);
    CHECK(gpu.watts > 0);
    CHECK(gpu.clock_share > 0.5);
    CHECK(gpu.clock_share <= 1);
    CHECK_FALSE(gpu.source.empty());
  }
}

TEST_CASE("a network is told by its links or by a device's rate, and by its kind") {
  CHECK(network_by_name("8x400G", 8).value().bandwidth == Approx(50e9));
  CHECK(network_by_name("1x100G", 8).value().bandwidth == Approx(100e9 / 64));
  CHECK(network_by_name("200Gb/s RoCE", 8).value().bandwidth == Approx(25e9));
  CHECK(network_by_name("200Gb/s RoCE", 8).value().kind == NetworkKind::kRoce);
  CHECK(network_by_name("32x100G EFA", 8).value().kind == NetworkKind::kEfa);
  CHECK(network_by_name("400G", 8).value().kind == NetworkKind::kInfiniBand);
  for (const char* same : {"400Gbps", "400Gb/s", "400Gbit/s", "50GB/s", "400G InfiniBand"}) {
    INFO(same);
    CHECK(network_by_name(same, 8).value().bandwidth == Approx(50e9));
  }
  for (const char* words :
       {"fast", "8x", "-1G", "8x400G pigeons", "400", "0G", "nanG", "infG", "1e9G", "400Gx", "400GBit"}) {
    INFO(words);
    CHECK_FALSE(network_by_name(words, 8).ok());
  }
}

TEST_CASE("a machine is a number of devices and a GPU's name") {
  const Machine machine = machine_by_name("64xH100", "").value();
  CHECK(machine.devices == 64);
  CHECK(machine.devices_per_node == 8);
  CHECK(machine.nodes() == 8);
  CHECK_FALSE(machine.network.stated);
  CHECK(machine_by_name("4xA100", "").value().devices_per_node == 4);
  for (const char* words : {"H100", "0xH100", "1.5xH100", "64x", "64H100"}) {
    INFO(words);
    CHECK_FALSE(machine_by_name(words, "").ok());
  }
}

TEST_CASE("a part with fewer watts keeps the third root of their ratio") {
  CHECK(gpu_by_name("H100-PCIe-80GB").value().clock_share == Approx(std::cbrt(0.5)));
}

}  // namespace
}  // namespace trimtab::estimates
