#pragma once

// The part of NVML's C interface that is read here, declared by ourselves: the library comes with the driver, is loaded
// at run time and never linked. Names and values are those of NVIDIA's "NVML API Reference Guide"; a version suffix is
// part of a name, and a driver that lacks a name leaves its pointer null.

#include <cstddef>

namespace trimtab::host::nvml {

using Device = struct OpaqueDevice*;

// Return codes.
inline constexpr int kSuccess = 0;
inline constexpr int kInvalidArgument = 2;  // also: no such NVLink
inline constexpr int kNotSupported = 3;
inline constexpr int kNotFound = 6;  // no MIG instance at this index
inline constexpr int kDriverNotLoaded = 9;
inline constexpr int kLibraryNotFound = 12;
inline constexpr int kFunctionNotFound = 13;
inline constexpr int kGpuIsLost = 15;
inline constexpr int kDeprecated = 26;
inline constexpr int kGpuNotFound = 28;

enum ClockType : int { kClockGraphics = 0, kClockSm = 1, kClockMemory = 2, kClockVideo = 3 };
enum ClockId : int { kClockCurrent = 0, kClockApplicationTarget = 1 };
inline constexpr int kTemperatureGpu = 0;
enum EccError : int { kEccCorrected = 0, kEccUncorrected = 1 };
inline constexpr int kEccVolatile = 0;  // since the driver was loaded
enum NvLinkRemote : int { kRemoteGpu = 0, kRemoteNpu = 1, kRemoteSwitch = 2 };
inline constexpr unsigned kMaxNvLinks = 36;
enum NvLinkError : int { kLinkReplay = 0, kLinkRecovery = 1, kLinkCrcFlit = 2, kLinkCrcData = 3 };
enum PcieTraffic : int { kPcieSent = 0, kPcieReceived = 1 };  // in KB/s over 20 ms

struct Memory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};
static_assert(sizeof(Memory) == 24);

struct Utilization {
  unsigned gpu = 0;     // percent
  unsigned memory = 0;  // percent
};
static_assert(sizeof(Utilization) == 8);

struct PciInfo {
  char bus_id_legacy[16] = {};
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned device_id = 0;
  unsigned subsystem_id = 0;
  char bus_id[32] = {};
};
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, bus_id) == 36);

// Of a MIG instance.
struct Attributes {
  unsigned multiprocessors = 0;
  unsigned copy_engines = 0;
  unsigned decoders = 0;
  unsigned encoders = 0;
  unsigned jpegs = 0;
  unsigned ofas = 0;
  unsigned gpu_slices = 0;
  unsigned compute_slices = 0;
  unsigned long long memory_mib = 0;
};
static_assert(sizeof(Attributes) == 40 && offsetof(Attributes, memory_mib) == 32);

struct ConfidentialState {
  unsigned environment = 0;
  unsigned feature = 0;    // 1 = confidential computing is on
  unsigned dev_tools = 0;  // 1 = tools may look inside
};
static_assert(sizeof(ConfidentialState) == 12);

// F(name, argument types...): int name(arguments).
#define TRIMTAB_NVML_FUNCTIONS(F)                                                \
  F(nvmlInit_v2)                                                                 \
  F(nvmlShutdown)                                                                \
  F(nvmlSystemGetDriverVersion, char*, unsigned)                                 \
  F(nvmlSystemGetCudaDriverVersion_v2, int*)                                     \
  F(nvmlSystemGetConfComputeState, ConfidentialState*)                           \
  F(nvmlDeviceGetCount_v2, unsigned*)                                            \
  F(nvmlDeviceGetHandleByIndex_v2, unsigned, Device*)                            \
  F(nvmlDeviceGetName, Device, char*, unsigned)                                  \
  F(nvmlDeviceGetUUID, Device, char*, unsigned)                                  \
  F(nvmlDeviceGetPciInfo_v3, Device, PciInfo*)                                   \
  F(nvmlDeviceGetMemoryInfo, Device, Memory*)                                    \
  F(nvmlDeviceGetNumGpuCores, Device, unsigned*)                                 \
  F(nvmlDeviceGetCudaComputeCapability, Device, int*, int*)                      \
  F(nvmlDeviceGetAttributes_v2, Device, Attributes*)                             \
  F(nvmlDeviceGetClockInfo, Device, int, unsigned*)                              \
  F(nvmlDeviceGetMaxClockInfo, Device, int, unsigned*)                           \
  F(nvmlDeviceGetClock, Device, int, int, unsigned*)                             \
  F(nvmlDeviceGetCurrentClocksEventReasons, Device, unsigned long long*)         \
  F(nvmlDeviceGetCurrentClocksThrottleReasons, Device, unsigned long long*)      \
  F(nvmlDeviceGetPowerUsage, Device, unsigned*)                                  \
  F(nvmlDeviceGetEnforcedPowerLimit, Device, unsigned*)                          \
  F(nvmlDeviceGetTotalEnergyConsumption, Device, unsigned long long*)            \
  F(nvmlDeviceGetTemperature, Device, int, unsigned*)                            \
  F(nvmlDeviceGetUtilizationRates, Device, Utilization*)                         \
  F(nvmlDeviceGetEccMode, Device, int*, int*)                                    \
  F(nvmlDeviceGetTotalEccErrors, Device, int, int, unsigned long long*)          \
  F(nvmlDeviceGetMigMode, Device, unsigned*, unsigned*)                          \
  F(nvmlDeviceGetMaxMigDeviceCount, Device, unsigned*)                           \
  F(nvmlDeviceGetMigDeviceHandleByIndex, Device, unsigned, Device*)              \
  F(nvmlDeviceGetComputeMode, Device, int*)                                      \
  F(nvmlDeviceGetVirtualizationMode, Device, int*)                               \
  F(nvmlDeviceGetMaxPcieLinkGeneration, Device, unsigned*)                       \
  F(nvmlDeviceGetMaxPcieLinkWidth, Device, unsigned*)                            \
  F(nvmlDeviceGetCurrPcieLinkGeneration, Device, unsigned*)                      \
  F(nvmlDeviceGetCurrPcieLinkWidth, Device, unsigned*)                           \
  F(nvmlDeviceGetPcieReplayCounter, Device, unsigned*)                           \
  F(nvmlDeviceGetPcieThroughput, Device, int, unsigned*)                         \
  F(nvmlDeviceGetTopologyCommonAncestor, Device, Device, int*)                   \
  F(nvmlDeviceGetNvLinkState, Device, unsigned, int*)                            \
  F(nvmlDeviceGetNvLinkErrorCounter, Device, unsigned, int, unsigned long long*) \
  F(nvmlDeviceGetNvLinkVersion, Device, unsigned, unsigned*)                     \
  F(nvmlDeviceGetNvLinkRemotePciInfo_v2, Device, unsigned, PciInfo*)             \
  F(nvmlDeviceGetNvLinkRemoteDeviceType, Device, unsigned, int*)

struct Functions {
#define TRIMTAB_NVML_POINTER(name, ...) int (*name)(__VA_ARGS__) = nullptr;
  TRIMTAB_NVML_FUNCTIONS(TRIMTAB_NVML_POINTER)
#undef TRIMTAB_NVML_POINTER
  const char* (*nvmlErrorString)(int) = nullptr;
};

}  // namespace trimtab::host::nvml
