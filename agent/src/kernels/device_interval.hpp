#pragma once

// One stretch of time on one stream of a device, as kernels, collectives and copies become when they are folded. On a
// CPU job the streams are threads. A plain value.

#include <cstdint>

#include "kernels/kernel_name.hpp"

namespace trimtab::agent {

enum class Activity : std::uint8_t { kComputation, kCommunication, kCopy };

struct DeviceInterval {
  static constexpr std::uint16_t kAnyDevice = 0xffff;

  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;  // not before begin_ns
  std::uint32_t stream = 0;
  std::uint32_t subject = 0;  // of a computation: its signature; of a communication: its CommunicationKey
  Activity activity = Activity::kComputation;
  KernelClass kernel_class = KernelClass::kOther;  // of a computation
  std::uint16_t device = 0;                        // CUDA's number of it in the process

  [[nodiscard]] bool shares_device(const DeviceInterval& other) const {
    return device == other.device || device == kAnyDevice || other.device == kAnyDevice;
  }

  [[nodiscard]] std::uint64_t length_ns() const { return end_ns - begin_ns; }
};

}  // namespace trimtab::agent
