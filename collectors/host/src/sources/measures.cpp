#include "sources/measures.hpp"

#include <array>

namespace trimtab::host {

std::span<const Measure* const> measures() {
  static constexpr std::array kAll{&kSourceUp,          &kSourceStalled,    &kSourceFailures,    &kSourceReadSeconds,
                                   &kCpuSeconds,        &kContextSwitches,  &kProcessesRunning,  &kProcessesBlocked,
                                   &kCpuClock,          &kCpuThrottles,     &kMemoryTotal,       &kMemoryAvailable,
                                   &kMemoryCached,      &kMemoryShared,     &kSwapTotal,         &kSwapFree,
                                   &kPressure,          &kCgroupMemory,     &kCgroupMemoryLimit, &kCgroupCpuLimit,
                                   &kCgroupCpu,         &kCgroupThrottled,  &kNetworkUp,         &kNetworkSpeed,
                                   &kNetworkBytes,      &kNetworkPackets,   &kNetworkErrors,     &kNetworkDrops,
                                   &kNetworkLeftOut,    &kInfinibandUp,     &kInfinibandRate,    &kInfinibandBytes,
                                   &kInfinibandPackets, &kInfinibandEvents, &kDeviceInfo,        &kDeviceUp,
                                   &kDeviceClock,       &kDeviceClockMax,   &kDeviceThrottled,   &kDevicePower,
                                   &kDevicePowerLimit,  &kDeviceEnergy,     &kDeviceTemperature, &kDeviceMemoryTotal,
                                   &kDeviceMemoryUsed,  &kDeviceBusy,       &kDeviceEcc,         &kDevicePcieGeneration,
                                   &kDevicePcieWidth,   &kDeviceNvLinks,    &kDeviceMigInstances};
  return kAll;
}

}  // namespace trimtab::host
