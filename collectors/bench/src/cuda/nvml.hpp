#pragma once

// Clocks, power and memory of one GPU, from the driver's management library. Its few functions are declared here: no
// header and no link-time dependency. What the driver does not answer reads as 0.

#include <cstdint>
#include <optional>
#include <string>

#include "base/units.hpp"
#include "device.hpp"
#include "dynamic_library.hpp"

namespace trimtab::bench::cuda {

class Nvml {
 public:
  // Nothing where the library or this GPU is not to be had.
  [[nodiscard]] static std::optional<Nvml> open(const std::string& pci_bus_id);

  [[nodiscard]] ClockReading clocks() const;
  [[nodiscard]] Bytes used_bytes() const;
  [[nodiscard]] std::string driver_version() const;

 private:
  struct Handle;  // nvmlDevice_t's target
  struct Memory {
    unsigned long long total, free, used;
  };
  using Result = int;

  explicit Nvml(DynamicLibrary library) : library_(library) {}
  template <typename Function>
  void load(Function*& function, const char* name) {
    function = library_.find<Function>(name);
  }

  DynamicLibrary library_;
  Handle* device_ = nullptr;
  Result (*clock_)(Handle*, unsigned kind, unsigned* mhz) = nullptr;
  Result (*power_)(Handle*, unsigned* milliwatts) = nullptr;
  Result (*throttle_)(Handle*, unsigned long long* reasons) = nullptr;
  Result (*memory_)(Handle*, Memory*) = nullptr;
  Result (*driver_)(char* version, unsigned length) = nullptr;
};

}  // namespace trimtab::bench::cuda
