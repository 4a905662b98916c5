#pragma once

// The part of CUPTI's binary interface that we use, declared from its published layout (cupti_activity.h, CUDA 11.8 to
// 13.x), because the library is built without CUDA. Records grow at their ends from release to release: only prefixes
// are declared, and only CUPTI's own iterator knows the strides. tests/collectors/cupti_abi_test.cpp compares all of it
// with the real headers where there are any.

#include <cstddef>
#include <cstdint>

namespace trimtab::inject::cupti {

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kMaxLimitReached = 12;  // the buffer has no further record
inline constexpr Result kMultipleSubscribers = 39;
inline constexpr Result kUnknown = 999;

// cuptiGetVersion: a counter up to 12.9, then major * 10000 + minor * 100 + update.
inline constexpr std::uint32_t kVersion11_8 = 18;
inline constexpr std::uint32_t kVersion12_5 = 23;      // single API functions can be enabled
inline constexpr std::uint32_t kVersion12_9 = 27;      // a request for a buffer may be refused
inline constexpr std::uint32_t kVersion13_0 = 130000;  // overhead records own memory
inline constexpr std::uint32_t kVersion13_3 = 130300;  // the enabled kinds can be asked for
inline constexpr std::uint32_t kVersion14_0 = 140000;  // not seen: its records may begin otherwise

enum Kind : std::uint32_t {
  kKindMemcpy = 1,
  kKindMemset = 2,
  kKindKernel = 3,
  kKindDriver = 4,
  kKindRuntime = 5,
  kKindConcurrentKernel = 10,
  kKindMarker = 12,
  kKindOverhead = 17,
  kKindMemcpy2 = 22,
  kKindCudaEvent = 36,
  kKindSynchronization = 38,
  kKindExternalCorrelation = 39,
  kKindGraphTrace = 51,
};

enum OverheadKind : std::uint32_t {
  kOverheadBufferFlush = 1U << 16,
  kOverheadInstrumentation = 2U << 16,
  kOverheadResource = 3U << 16,
  kOverheadCommandBufferFull = 6U << 16,
  kOverheadBufferRequest = 7U << 16,
  kOverheadUvmInit = 8U << 16,
};

inline constexpr int kExternalCustom2 = 5;  // torch.profiler uses CUSTOM0 and CUSTOM1
inline constexpr std::uint32_t kFlushForced = 1;

struct Activity {
  std::uint32_t kind;
};

struct KernelActivity {
  std::uint32_t kind;
  std::uint8_t cache_config;
  std::uint8_t shared_memory_config;
  std::uint16_t registers;
  std::uint32_t partitioned_cache[2];
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t completed;
  std::uint32_t device;
  std::uint32_t context;
  std::uint32_t stream;
  std::int32_t grid[3];
  std::int32_t block[3];
  std::int32_t static_shared_memory;
  std::int32_t dynamic_shared_memory;
  std::uint32_t local_memory_per_thread;
  std::uint32_t local_memory_total;
  std::uint32_t correlation;
  std::int64_t grid_id;
  const char* name;
};
static_assert(sizeof(KernelActivity) == 112);

struct MemcpyActivity {
  std::uint32_t kind;
  std::uint8_t copy_kind;
  std::uint8_t source_kind;
  std::uint8_t destination_kind;
  std::uint8_t flags;
  std::uint64_t bytes;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t device;
  std::uint32_t context;
  std::uint32_t stream;
  std::uint32_t correlation;
};
static_assert(sizeof(MemcpyActivity) == 48);

struct Memcpy2Activity {
  std::uint32_t kind;
  std::uint8_t copy_kind;
  std::uint8_t source_kind;
  std::uint8_t destination_kind;
  std::uint8_t flags;
  std::uint64_t bytes;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t device;
  std::uint32_t context;
  std::uint32_t stream;
  std::uint32_t source_device;
  std::uint32_t source_context;
  std::uint32_t destination_device;
  std::uint32_t destination_context;
  std::uint32_t correlation;
};
static_assert(sizeof(Memcpy2Activity) == 64);

struct MemsetActivity {
  std::uint32_t kind;
  std::uint32_t value;
  std::uint64_t bytes;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t device;
  std::uint32_t context;
  std::uint32_t stream;
  std::uint32_t correlation;
};
static_assert(sizeof(MemsetActivity) == 48);

struct GraphActivity {
  std::uint32_t kind;
  std::uint32_t correlation;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t device;
  std::uint32_t graph;
  std::uint32_t context;
  std::uint32_t stream;
};
static_assert(sizeof(GraphActivity) == 40);

struct OverheadActivity {
  std::uint32_t kind;
  std::uint32_t overhead;
  std::uint32_t object_kind;
  std::uint32_t object[3];
  std::uint64_t start;
  std::uint64_t end;
  // From 13.0 on; shorter before.
  std::uint32_t correlation;
  std::uint32_t reserved;
  void* data;  // from malloc, ours to free
};
static_assert(sizeof(OverheadActivity) == 56);

struct ExternalCorrelationActivity {
  std::uint32_t kind;
  std::uint32_t external_kind;
  std::uint64_t external_id;
  std::uint32_t correlation;
  std::uint32_t reserved;
};
static_assert(sizeof(ExternalCorrelationActivity) == 24);

struct ApiActivity {
  std::uint32_t kind;
  std::uint32_t callback;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t process;
  std::uint32_t thread;
  std::uint32_t correlation;
  std::uint32_t returned;
};
static_assert(sizeof(ApiActivity) == 40);

// Functions that put work on a device: their external ids say for which range, their times when.
inline constexpr std::uint32_t kRuntimeLaunches[] = {
    31, 41, 49, 51, 160, 161, 211, 214, 215, 225, 233, 235, 269, 270, 311, 312, 430, 431,
};
inline constexpr std::uint32_t kRuntimeLaunches13[] = {505, 506};
inline constexpr std::uint32_t kDriverLaunches[] = {
    216, 218, 220, 277, 279, 281, 306, 307, 319, 418, 421, 422,
    423, 426, 428, 429, 430, 442, 477, 478, 514, 515, 652, 653,
};
// Functions in which the host waits until the device is done.
inline constexpr std::uint32_t kRuntimeWaits[] = {126, 131, 137, 165, 239};
inline constexpr std::uint32_t kDriverWaits[] = {17, 121, 126, 440};

using BufferRequested = void (*)(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records);
// `context` is a CUcontext, always null since CUDA 6.
using BufferCompleted = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t bytes,
                                 std::size_t valid_bytes);

using GetVersion = Result (*)(std::uint32_t* version);
using RegisterCallbacks = Result (*)(BufferRequested requested, BufferCompleted completed);
using SwitchKind = Result (*)(std::uint32_t kind);
using FlushAll = Result (*)(std::uint32_t flags);
using Timestamp = std::uint64_t (*)();
using Finalize = Result (*)();
using RegisterTimestamp = Result (*)(Timestamp clock);
using GetNextRecord = Result (*)(std::uint8_t* buffer, std::size_t valid_bytes, Activity** record);
using GetDropped = Result (*)(void* context, std::uint32_t stream, std::size_t* dropped);
using PushExternalId = Result (*)(int kind, std::uint64_t id);
using PopExternalId = Result (*)(int kind, std::uint64_t* last);
using SwitchApi = Result (*)(std::uint32_t callback, std::uint8_t enable);
// `capacity` is taken to be in entries or in bytes: the table must be safe for both.
using GetEnabledKinds = Result (*)(void* subscriber, std::uint32_t* kinds, std::uint32_t* capacity,
                                   std::uint32_t* count);

}  // namespace trimtab::inject::cupti
