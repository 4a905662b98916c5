#pragma once

// What NCCL and its plugins hand each other, declared by ourselves from the offsets of 2.28 to 2.30; NCCL installs no
// header for it. Only what is read here has a name. Profiler versions 4 and 5 (NCCL 2.26 and later), tuner versions 4
// and 5. Their later versions are not offered: NCCL then takes the highest that is, and what v6 adds (copy-engine
// events, chunk sizes) carries no GPU time and no choice of ours.

#include <cstddef>
#include <cstdint>

namespace trimtab::nccl {

using Result = int;  // ncclResult_t
inline constexpr Result kSuccess = 0;

using Logger = void (*)(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);
inline constexpr int kLogWarning = 2;
inline constexpr int kLogInfo = 3;
inline constexpr unsigned long kLogInit = 1;
inline constexpr unsigned long kLogTuning = 0x40;
inline constexpr unsigned long kLogProfile = 0x4000;

// Bits of the activation mask; also the types of events.
enum EventType : std::uint64_t {
  kGroupEvent = 1,
  kCollectiveEvent = 2,
  kP2pEvent = 4,
  kProxyOpEvent = 8,
  kProxyStepEvent = 16,
  kProxyControlEvent = 32,
  kKernelChannelEvent = 64,
  kNetPluginEvent = 128,
  kGroupApiEvent = 256,
  kCollectiveApiEvent = 512,
  kP2pApiEvent = 1024,
  kKernelLaunchEvent = 2048,
};
inline constexpr int kKernelChannelStop = 22;  // a state; its argument is the GPU's stamp

struct CollectiveDescriptor {
  std::uint64_t sequence;  // in its communicator, by function
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  std::int32_t root;
  const char* datatype;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
  void* parent_group;  // version 5 only: beyond the end of version 4's
};
struct P2pDescriptor {
  const char* function;
  void* buffer;
  const char* datatype;
  std::size_t count;
  std::int32_t peer;
  std::uint8_t channels;
  void* parent_group;  // version 5 only
};
struct ProxyOpDescriptor {
  std::int32_t pid;  // of the process that the parent lives in
};
struct KernelChannelDescriptor {
  std::uint8_t channel;
  std::uint64_t start;  // %globaltimer, ns
};

struct EventDescriptor {
  std::uint64_t type;  // version 4: one byte, the rest undefined
  void* parent;        // a handle of ours, except a ProxyOp's of another process
  std::int32_t rank;
  union {
    CollectiveDescriptor collective;
    P2pDescriptor p2p;
    ProxyOpDescriptor proxy_op;
    KernelChannelDescriptor kernel_channel;
  };
};
inline constexpr std::size_t kDescriptorBytesV4 = 104;
inline constexpr std::size_t kDescriptorBytesV5 = 112;

static_assert(sizeof(EventDescriptor) == kDescriptorBytesV5 && alignof(EventDescriptor) == 8);
static_assert(offsetof(EventDescriptor, parent) == 8 && offsetof(EventDescriptor, rank) == 16);
static_assert(offsetof(EventDescriptor, collective.sequence) == 24);
static_assert(offsetof(EventDescriptor, collective.function) == 32);
static_assert(offsetof(EventDescriptor, collective.count) == 56);
static_assert(offsetof(EventDescriptor, collective.root) == 64);
static_assert(offsetof(EventDescriptor, collective.datatype) == 72);
static_assert(offsetof(EventDescriptor, collective.channels) == 80);
static_assert(offsetof(EventDescriptor, collective.algorithm) == 88);
static_assert(offsetof(EventDescriptor, collective.protocol) == 96);
static_assert(offsetof(EventDescriptor, collective.parent_group) == kDescriptorBytesV4);
static_assert(offsetof(EventDescriptor, p2p.function) == 24 && offsetof(EventDescriptor, p2p.datatype) == 40);
static_assert(offsetof(EventDescriptor, p2p.count) == 48 && offsetof(EventDescriptor, p2p.peer) == 56);
static_assert(offsetof(EventDescriptor, p2p.channels) == 60 && offsetof(EventDescriptor, p2p.parent_group) == 64);
static_assert(offsetof(EventDescriptor, proxy_op.pid) == 24);
static_assert(offsetof(EventDescriptor, kernel_channel.channel) == 24);
static_assert(offsetof(EventDescriptor, kernel_channel.start) == 32);

union StateArguments {
  std::uint64_t stamp;  // of kKernelChannelStop
  void* opaque;
};
static_assert(sizeof(StateArguments) == 8);

template <typename Init>
struct Profiler {
  const char* name;
  Init init;
  Result (*start_event)(void* context, void** handle, EventDescriptor* descriptor);
  Result (*stop_event)(void* handle);
  Result (*record_event_state)(void* handle, int state, StateArguments* arguments);
  Result (*finalize)(void* context);
};
using ProfilerV4 = Profiler<Result (*)(void** context, int* mask, const char* name, std::uint64_t communicator,
                                       int nodes, int ranks, int rank, Logger logger)>;
using ProfilerV5 = Profiler<Result (*)(void** context, std::uint64_t communicator, int* mask, const char* name,
                                       int nodes, int ranks, int rank, Logger logger)>;
static_assert(sizeof(ProfilerV4) == 48 && sizeof(ProfilerV5) == 48);
static_assert(offsetof(ProfilerV5, init) == 8 && offsetof(ProfilerV5, start_event) == 16);
static_assert(offsetof(ProfilerV5, stop_event) == 24 && offsetof(ProfilerV5, record_event_state) == 32);
static_assert(offsetof(ProfilerV5, finalize) == 40);

// `table` is float[algorithms][protocols] in one piece: predicted µs, negative = not available here.
using GetCollectiveInfo = Result (*)(void* context, int function, std::size_t bytes, int operations, float** table,
                                     int algorithms, int protocols, int registered, int* channels);
struct TunerV4 {
  const char* name;
  Result (*init)(std::size_t ranks, std::size_t nodes, Logger logger, void** context);
  GetCollectiveInfo get_collective_info;
  Result (*destroy)(void* context);
};
struct TunerV5 {
  const char* name;
  Result (*init)(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes, Logger logger,
                 void* nvlink_domain, void* constants);
  GetCollectiveInfo get_collective_info;
  Result (*finalize)(void* context);
};
static_assert(sizeof(TunerV4) == 32 && sizeof(TunerV5) == 32);
static_assert(offsetof(TunerV4, get_collective_info) == 16 && offsetof(TunerV5, get_collective_info) == 16);

}  // namespace trimtab::nccl
