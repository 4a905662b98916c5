#pragma once

// What this process takes at most from here on, beyond what it has now: also what was given back meanwhile.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

namespace trimtab::test {

class PeakMemory {
 public:
  PeakMemory() {
    std::ofstream("/proc/self/clear_refs") << "5";  // the kernel's high-water mark is the present again
    begin_ = status("VmRSS:");
  }
  [[nodiscard]] std::int64_t growth_bytes() const { return std::max<std::int64_t>(0, status("VmHWM:") - begin_); }

 private:
  static std::int64_t status(const std::string& name) {
    std::ifstream file("/proc/self/status");
    std::string word;
    while (file >> word && word != name) {
    }
    std::int64_t kibibytes = 0;
    file >> kibibytes;
    return kibibytes * 1024;
  }

  std::int64_t begin_ = 0;
};

}  // namespace trimtab::test
