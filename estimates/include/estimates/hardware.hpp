#pragma once

// Hardware by its name: what data sheets say of a GPU and of the network between nodes. Plain values.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "estimates/uniform_plan.hpp"

namespace trimtab::estimates {

enum class Generation : std::uint8_t { kVolta, kAmpere, kAda, kHopper, kBlackwell, kOther };

struct Gpu {
  std::string_view name;  // "H100-SXM-80GB"
  Generation generation = Generation::kOther;
  double half_flops = 0;        // a second, dense, float16 or bfloat16 summed up in float32
  double float8_flops = 0;      // 0 = it has none
  Bytes memory = 0;             // what a process may use: the driver's share is taken off
  double memory_bandwidth = 0;  // bytes a second
  double link_bandwidth = 0;    // NVLink or its like: bytes a second in one direction; 0 = PCIe alone
  double pcie_bandwidth = 0;    // bytes a second in one direction
  std::int32_t multiprocessors = 0;
  std::int32_t linked = 8;  // devices that the fast links join
  double watts = 0;         // that it draws at most, by its data sheet; of a superchip with its CPU
  // Of the clock that the peak stands for, under its power limit. Power goes with the cube of the clock, so a part that
  // has fewer watts than the best of its kind keeps the third root of their ratio.
  double clock_share = 1;
  bool has_bfloat16 = true;
  std::string_view source;  // of the figures
};

// Operations a second at most, dense, of products in this precision.
[[nodiscard]] double peak_flops(const Gpu& gpu, Precision precision);

[[nodiscard]] std::span<const Gpu> gpus();
// By a name as people write it: "H100", "h100-sxm-80gb", "NVIDIA A100-SXM4-80GB". Fails with the names that are known.
[[nodiscard]] Result<Gpu> gpu_by_name(std::string_view name);

enum class NetworkKind : std::uint8_t { kInfiniBand, kRoce, kEfa, kOmniPath };

struct Network {
  double bandwidth = 50e9;  // bytes a second of one device, in one direction, to other nodes
  NetworkKind kind = NetworkKind::kInfiniBand;
  bool stated = false;  // else it is the usual one of this GPU, and intervals are wider
};

// The machine that a plan runs on. All nodes are equal.
struct Machine {
  Gpu gpu;
  std::int32_t devices = 1;
  std::int32_t devices_per_node = 8;  // that the fast links join
  Network network;

  [[nodiscard]] std::int32_t nodes() const { return (devices + devices_per_node - 1) / devices_per_node; }
};

// "8x400G" (links of a node, Gbit/s each), "400G" (of each device), either with its kind behind: "8x400G EFA".
[[nodiscard]] Result<Network> network_by_name(std::string_view words, std::int32_t devices_per_node);
// What is usual in clusters of this GPU: bytes a second of one device.
[[nodiscard]] double usual_network(const Gpu& gpu);

// "64xH100", "8xA100-SXM4-40GB". With `network` as above, or empty.
[[nodiscard]] Result<Machine> machine_by_name(std::string_view devices, std::string_view network);

}  // namespace trimtab::estimates
