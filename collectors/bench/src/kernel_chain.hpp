#pragma once

// Steps of many short kernels, as a training process launches them: what a collector beside it costs shows here first.
// What was launched is counted, so that a collector's records can be held against it.

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace trimtab::bench {

struct ChainRequest {
  std::int64_t kernel_ns = 5000;
  std::int32_t kernels = 200;  // in a step; each step also has one copy to the device and one fill
  std::int32_t steps = 100;
  bool graph = false;  // the step is captured once and replayed
};

// One value a step, in nanoseconds.
struct ChainTimes {
  std::vector<double> step_ns;
  std::vector<double> host_ns_per_launch;
  std::vector<double> gpu_ns_per_kernel;
  double first_launch_ns = 0;  // loading included
  // All launches of this chain, warm-up included. Of a graph: what its replays launched.
  std::uint64_t kernels = 0;
  std::uint64_t copies = 0;
  std::uint64_t fills = 0;
  std::uint64_t graph_launches = 0;
  Bytes resident_bytes = 0;  // of this process, at the end
  Bytes device_bytes = 0;    // in use on the device by everybody, at the end
};

// {"chain": {...}}: one line.
[[nodiscard]] std::string chain_line(const ChainRequest& request, const ChainTimes& times);

}  // namespace trimtab::bench
