#pragma once

// What the kernel says of one process: memory, CPU time and the limits of its control groups (v1 and v2). Any thread
// may call any function. Roots are arguments, "/" in production, so that a fixture tree can stand in for the machine.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/units.hpp"

namespace trimtab::host {

struct ProcessFacts {
  Bytes resident_bytes = 0;
  Bytes peak_resident_bytes = 0;  // VmHWM
  Nanoseconds cpu_time{0};        // user and system, of all threads that were ever there; 10 ms steps
  std::int64_t threads = 0;
  bool zombie = false;  // has ended, not yet waited for; the memory is 0
};

// kUnavailable when there is no such process.
[[nodiscard]] Result<ProcessFacts> read_process_facts(const std::string& root, pid_t pid);

struct CgroupLimits {
  std::optional<Bytes> memory_bytes;  // the tightest of its group and the groups around it
  std::optional<double> cpus;         // quota / period, likewise
};

// No limits where no control groups are mounted.
[[nodiscard]] Result<CgroupLimits> read_cgroup_limits(const std::string& root, pid_t pid);

}  // namespace trimtab::host
