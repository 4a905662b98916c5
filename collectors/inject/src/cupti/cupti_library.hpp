#pragma once

// What the process has of CUDA: its driver, and its own libcupti, found at run time: one that is loaded already, else
// the one that fits the loaded CUDA runtime. Never linked, never closed: 13.0 and 13.1 leave pointers behind.

#include <cstdint>

#include "cupti_abi.hpp"
#include "schema/record.hpp"

namespace trimtab::inject::cupti {

// Numbers of functions in RingHeader::cupti_state.
enum Call : std::uint8_t {
  kCallNone,
  kCallGetVersion,
  kCallRegisterCallbacks,
  kCallEnable,
  kCallDisable,
  kCallFlushAll,
  kCallGetNextRecord,
  kCallGetNumDroppedRecords,
};

struct Library {
  std::uint32_t version = 0;
  // All of these are there once load() has succeeded.
  GetVersion get_version = nullptr;
  RegisterCallbacks register_callbacks = nullptr;
  SwitchKind enable = nullptr;
  SwitchKind disable = nullptr;
  FlushAll flush_all = nullptr;
  GetNextRecord get_next_record = nullptr;
  GetDropped get_dropped = nullptr;
  // nullptr where the release has none or not one that works.
  PushExternalId push_external_id = nullptr;
  PopExternalId pop_external_id = nullptr;
  SwitchApi switch_driver_api = nullptr;
  SwitchApi switch_runtime_api = nullptr;
  GetEnabledKinds get_enabled_kinds = nullptr;
  RegisterTimestamp register_timestamp = nullptr;
  Finalize finalize = nullptr;

  // Range ids can be given to launches: all four functions are there.
  [[nodiscard]] bool correlates() const { return push_external_id != nullptr; }
};

// What RingHeader::cupti_state says.
struct CuptiState {
  record::CuptiReason reason = record::kCuptiNotAsked;
  Call call = kCallNone;
  Result result = kSuccess;

  [[nodiscard]] bool running() const { return reason == record::kCuptiRunning; }
  [[nodiscard]] std::uint32_t packed() const {
    return std::uint32_t{reason} | std::uint32_t{call} << 8 | (static_cast<std::uint32_t>(result) & 0xffff) << 16;
  }
};

// The state after `call` returned `result`.
CuptiState state_of(Call call, Result result);

// Finds and opens the library; `path` nullptr or empty: by the rules above, else that file and no other.
CuptiState load_library(const char* path, Library& library);

// CUDA's driver, seen from a process that it has not called.

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
