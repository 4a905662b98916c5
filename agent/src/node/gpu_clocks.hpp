#pragma once

// Whether GPUs of this node ran slower than they usually do while something was measured: for heat, for a power cap or
// for a brake. What is usual of a GPU is the median of its clocks so far, each read while it worked and something was
// measured here. So one that has been held down ever since the agent began is not told apart. Which GPU a cost is of is
// not known here: one of the node's is enough. Pure; loop thread only.

#include <deque>
#include <map>

#include "probes/device_probe.hpp"

namespace trimtab::agent {

class GpuClocks final {
 public:
  // Below the usual clock, from which share on a measurement is disturbed: as large as the share of the processors that
  // disturbs a host's clock (others_use.hpp).
  static constexpr double kDisturbs = 0.10;
  static constexpr std::size_t kMostLooks = 1024;  // of each GPU
  // What costs of a running job are judged by: a clock that is read once swings with the kernel that runs.
  static constexpr Nanoseconds kWindow = std::chrono::seconds(15);

  // What gpu_speeds() says, at a monotonic time.
  void add(const std::vector<DeviceSpeed>& speeds, Nanoseconds at);
  // By the median of what was read of a GPU since then.
  [[nodiscard]] bool disturbed_since(Nanoseconds since) const;

 private:
  struct Look {
    Nanoseconds at{0};
    double ms = 0;  // of a million cycles
  };
  std::map<int, std::deque<Look>> looks_;  // by device
};

}  // namespace trimtab::agent
