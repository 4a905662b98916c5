#pragma once

// How fast this node's CPUs compute and move memory: fixed pieces of work, timed by the thread's own CPU time, so that
// a busy machine makes the probe wait and not slower. For a thread of its own, at the lowest priority.

#include "host/source.hpp"
#include "probes/probe_socket.hpp"

namespace trimtab::agent {

struct DeviceSpeed {
  int device = 0;
  std::string work;  // "computation", "memory", "clock"
  double ms = 0;
  double spread = 0;   // relative: how much longer the median repetition took than the fastest
  std::string remark;  // for people; "throttled: power_cap"
};

// The thread's CPU time: some 60 ms for computation and memory together on a CPU of 3 GHz.
struct CpuBudget {
  int repetitions = 7;                                // of each work
  Nanoseconds time = std::chrono::milliseconds(200);  // of CPU; when it is spent no further repetition begins
};

// Takes the calling thread's priority away, for good.
void step_back();

// What the deadline left no time for is missing, and "memory" where the system has no 16 MiB for it, all of which it
// gets back. `cpu_time` is that of the calling thread.
[[nodiscard]] std::vector<DeviceSpeed> probe_cpu(const CpuBudget& budget, const Clock& cpu_time, const ProbeWait& wait);

// Of the calling thread; its wall() is of no use.
class ThreadCpuClock final : public Clock {
 public:
  [[nodiscard]] Nanoseconds monotonic() const override;
  [[nodiscard]] Nanoseconds wall() const override { return monotonic(); }
};

// What NVML's latest samples say of the GPUs' speed: their clocks, and why those are held down. Asks no driver. Pure.

// Of each GPU that works: `ms` is a million cycles of its SMs, `work` "clock". An idle GPU's clock says nothing and is
// left out.
[[nodiscard]] std::vector<DeviceSpeed> gpu_speeds(const host::Samples& samples);

}  // namespace trimtab::agent
