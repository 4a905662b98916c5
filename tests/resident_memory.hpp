#pragma once

// What a process of this machine takes of its memory now; 0 when it is gone.

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace trimtab::test {

inline std::int64_t resident_bytes(pid_t pid = ::getpid()) {
  std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
  std::int64_t all = 0;
  std::int64_t pages = 0;
  statm >> all >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

}  // namespace trimtab::test
