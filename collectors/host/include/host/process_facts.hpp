#pragma once

// What the kernel says of processes: memory, CPU time, the limits of their control groups (v1 and v2), and who takes
// the machine's processors. Any thread may call any function. Roots are arguments, "/" in production, so that a fixture
// tree can stand in for the machine.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/units.hpp"

namespace trimtab::host {

struct ProcessFacts {
  Bytes resident_bytes = 0;
  Nanoseconds cpu_time{0};  // user and system, of all threads that were ever there; 10 ms steps
  std::int64_t threads = 0;
  bool zombie = false;  // has ended, not yet waited for; the memory is 0
};

// kUnavailable when there is no such process.
[[nodiscard]] Result<ProcessFacts> read_process_facts(const std::string& root, pid_t pid);

struct CgroupLimits {
  std::optional<Bytes> memory_bytes;  // the tightest of its group and the groups around it
  std::optional<double> cpus;         // quota / period, likewise
};

// Of a process by its name in /proc: a number, or "self". No limits where no control groups are mounted.
[[nodiscard]] Result<CgroupLimits> read_cgroup_limits(const std::string& root, const std::string& process);

struct MachineUse {
  Nanoseconds busy{
      0};  // of all processors since the machine started, in 10 ms steps; what the hypervisor took included
  int processors = 0;
};
[[nodiscard]] Result<MachineUse> read_machine_use(const std::string& root);

struct ProcessUse {
  pid_t process = 0;
  pid_t parent = 0;
  Nanoseconds cpu_time{0};  // its own, and that of children which have ended and were waited for
};
// All processes that can be read; those that end meanwhile are left out.
[[nodiscard]] std::vector<ProcessUse> read_process_uses(const std::string& root);

}  // namespace trimtab::host
