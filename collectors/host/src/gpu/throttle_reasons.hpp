#pragma once

// Why a GPU's clock is lower than it could be, in the words of nvidia-smi. Bits of NVML's clocks event reasons.

#include <array>
#include <cstdint>

namespace trimtab::host {

struct ThrottleReason {
  std::uint64_t bit;
  const char* name;
};

inline constexpr std::array<ThrottleReason, 9> kThrottleReasons{{{0x001, "gpu_idle"},
                                                                 {0x002, "applications_clocks_setting"},
                                                                 {0x004, "sw_power_cap"},
                                                                 {0x008, "hw_slowdown"},
                                                                 {0x010, "sync_boost"},
                                                                 {0x020, "sw_thermal_slowdown"},
                                                                 {0x040, "hw_thermal_slowdown"},
                                                                 {0x080, "hw_power_brake_slowdown"},
                                                                 {0x100, "display_clock_setting"}}};

}  // namespace trimtab::host
