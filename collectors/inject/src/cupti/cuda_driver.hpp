#pragma once

// CUDA's driver, seen from a process that it has not called.

namespace trimtab::inject::cupti {

// Whether CUDA has begun in this process, or has been there and ended. Asking neither loads nor initialises the driver.
// Any thread; takes the loader's lock.
[[nodiscard]] bool cuda_has_begun();

// "GPU-" or "MIG-" and 36 characters, as NVML writes it; NUL-terminated.
struct DeviceUuid {
  char text[41] = {};
};
inline constexpr int kMostDevices = 16;

// Of the devices 0, 1, ... as this process counts them; returns how many were told. Any thread. REQUIRES: CUDA has
// begun.
int read_device_uuids(DeviceUuid (&uuids)[kMostDevices]);

}  // namespace trimtab::inject::cupti
