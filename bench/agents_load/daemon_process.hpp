#pragma once

// A daemon in a process of its own, and what it uses of the machine.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"

namespace trimtab::load {

struct ProcessUse {
  Bytes resident = 0;  // 0: it does not run
  Bytes peak = 0;
  double cpu_seconds = 0;
  std::uint64_t descriptors = 0;
};

class DaemonProcess {
 public:
  DaemonProcess() = default;
  // Killed where it still runs.
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  // Program and arguments; waits, blocking, until `ready` holds. REQUIRES: none runs.
  [[nodiscard]] Status start(std::vector<std::string> words, const std::function<bool()>& ready);
  void signal(int number) const;
  // Sends the signal and waits for the end, at most 30 s. An error where it did not end as one asks it to.
  [[nodiscard]] Status end(int number);
  [[nodiscard]] ProcessUse use() const;

 private:
  std::string program_;
  pid_t pid_ = 0;
};

}  // namespace trimtab::load
