#pragma once

// Who takes the machine's processors: all together, and each process with the children that it has waited for. Any
// thread may call any function. `root` is "/" in production, so that a fixture tree can stand in for the machine.

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"

namespace trimtab::host {

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
