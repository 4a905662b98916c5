#pragma once

// What the fake libnvidia-ml.so.1 says during one test: a fixture of fixtures/nvml, changed line by line. One at a
// time.

#include <string>

namespace trimtab::test {

class NvmlScript final {
 public:
  explicit NvmlScript(const std::string& fixture);  // empty = nothing is supported
  ~NvmlScript();
  NvmlScript(const NvmlScript&) = delete;
  NvmlScript& operator=(const NvmlScript&) = delete;

  // "0 nvmlDeviceGetPowerUsage" answers this from now on.
  void set(const std::string& question, const std::string& answer);
  void remove(const std::string& question);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void write() const;
  std::string path_;
  std::string text_;
};

}  // namespace trimtab::test
