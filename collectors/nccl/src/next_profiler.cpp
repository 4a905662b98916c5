#include "next_profiler.hpp"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>

namespace trimtab::nccl {

namespace {

constexpr std::uint64_t kApiEvents = kGroupApiEvent | kCollectiveApiEvent | kP2pApiEvent;
constexpr std::uint64_t kProxyEvents = kProxyOpEvent | kProxyStepEvent | kNetPluginEvent;

// An event and all that can hang below it: NCCL gives a plugin the parents of what it asked for.
std::uint64_t family(std::uint64_t type) {
  const std::uint64_t task = kProxyEvents | kKernelChannelEvent;
  const std::uint64_t tasks = kCollectiveEvent | kP2pEvent | task;
  if (type == kGroupApiEvent) return kApiEvents | kGroupEvent | tasks | kKernelLaunchEvent;
  if (type == kCollectiveApiEvent) return kCollectiveApiEvent | kCollectiveEvent | task;
  if (type == kP2pApiEvent) return kP2pApiEvent | kP2pEvent | task;
  if (type == kGroupEvent) return kGroupEvent | tasks;
  if (type == kCollectiveEvent || type == kP2pEvent) return type | task;
  if (type == kProxyOpEvent) return kProxyEvents;
  return type == kProxyStepEvent ? kProxyStepEvent | kNetPluginEvent : type;
}

// As NCCL looks for a plugin: the name itself, then libnccl-profiler-NAME.so.
void* open_library(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  char composed[256];
  if (library != nullptr || std::strchr(name, '/') != nullptr) return library;
  const int length = std::snprintf(composed, sizeof(composed), "libnccl-profiler-%s.so", name);
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof(composed)) return nullptr;
  return dlopen(composed, RTLD_NOW | RTLD_LOCAL);
}

void refuse(Logger logger, const char* name, const char* why) {
  if (logger == nullptr) return;
  logger(kLogWarning, kLogInit, __FILE__, __LINE__,
         "trimtab: TRIMTAB_NCCL_PROFILER_NEXT names %s, which %s; it is not called", name, why);
}

// Whether `symbol` lies in the object that this code is in.
bool is_ourselves(const void* symbol) {
  static const char here = 0;
  Dl_info theirs{};
  Dl_info ours{};
  return dladdr(symbol, &theirs) != 0 && dladdr(&here, &ours) != 0 && theirs.dli_fbase == ours.dli_fbase;
}

// A pair's handle: the top bit, 15 bits of the process (PXN names parents of other processes), 48 of its turn.
constexpr std::uint64_t kTurnMask = (std::uint64_t{1} << 48) - 1;
std::uint64_t handle_bits(std::uint32_t process, std::uint64_t turn) {
  return std::uint64_t{1} << 63 | std::uint64_t{process & 0x7fff} << 48 | (turn & kTurnMask);
}

}  // namespace

void NextProfiler::load(const char* name, int version, std::uint32_t process, Logger logger) {
  if (name == nullptr || *name == '\0' || loaded()) return;
  void* const library = open_library(name);
  if (library == nullptr) return refuse(logger, name, "cannot be opened");
  if (!resolve(library, version, logger, name)) return;
  void* const memory = mmap(nullptr, kPairs * sizeof(Pair), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return refuse(logger, name, "needs memory that there is not");
  pairs_ = static_cast<Pair*>(memory);
  version_ = version;
  serve(process);
  loaded_.store(true, std::memory_order_release);
}

bool NextProfiler::resolve(void* library, int version, Logger logger, const char* name) {
  const void* const found = dlsym(library, version == 4 ? "ncclProfiler_v4" : "ncclProfiler_v5");
  if (found == nullptr) {
    refuse(logger, name,
           version == 4 ? "offers no ncclProfiler_v4, which this NCCL takes"
                        : "offers no ncclProfiler_v5, which this NCCL takes");
    return false;
  }
  if (is_ourselves(found)) {
    refuse(logger, name, "is Trimtab itself");
    return false;
  }
  if (version == 4) v4_ = static_cast<const ProfilerV4*>(found);
  if (version == 5) v5_ = static_cast<const ProfilerV5*>(found);
  return true;
}

bool NextProfiler::init(void** context, std::uint64_t communicator, const char* name, int nodes, int ranks, int rank,
                        Logger logger) {
  const Result result = version_ == 4 ? v4_->init(context, &mask_, name, communicator, nodes, ranks, rank, logger)
                                      : v5_->init(context, communicator, &mask_, name, nodes, ranks, rank, logger);
  if (result == kSuccess) return true;
  if (logger != nullptr) {
    logger(kLogWarning, kLogInit, __FILE__, __LINE__,
           "trimtab: the profiler plugin behind ours (%s) failed in init with %d; this communicator goes on without it",
           version_ == 4 ? v4_->name : v5_->name, result);
  }
  return false;
}

bool NextProfiler::wants(std::uint64_t type) const {
  return (static_cast<std::uint64_t>(static_cast<unsigned>(mask())) & family(type)) != 0;
}

std::uint64_t NextProfiler::start(void* context, std::uint64_t type, const EventDescriptor& descriptor,
                                  std::size_t bytes, std::uint64_t ours, bool forward) {
  EventPair pair{ours, nullptr};
  if (forward && wants(type)) {
    EventDescriptor copy{};
    std::memcpy(&copy, &descriptor, bytes);
    copy.parent = find(reinterpret_cast<std::uint64_t>(descriptor.parent)).theirs;
    const bool grouped = bytes == kDescriptorBytesV5;
    if (grouped && type == kCollectiveEvent) {
      void*& group = copy.collective.parent_group;
      group = find(reinterpret_cast<std::uint64_t>(group)).theirs;
    }
    if (grouped && type == kP2pEvent) {
      void*& group = copy.p2p.parent_group;
      group = find(reinterpret_cast<std::uint64_t>(group)).theirs;
    }
    const auto start_event = version_ == 4 ? v4_->start_event : v5_->start_event;
    if (start_event(context, &pair.theirs, &copy) != kSuccess) pair.theirs = nullptr;
  }
  return pair.ours == 0 && pair.theirs == nullptr ? 0 : keep(pair);
}

std::uint64_t NextProfiler::keep(const EventPair& pair) {
  const std::uint64_t turn = cursor_.fetch_add(1, std::memory_order_relaxed) + 1;
  Pair& place = pairs_[turn % kPairs];
  // Nobody finds it while it changes: who reads one of the new values sees that the turn has changed as well.
  place.turn.store(0, std::memory_order_relaxed);
  place.ours.store(pair.ours, std::memory_order_release);
  place.theirs.store(pair.theirs, std::memory_order_release);
  place.turn.store(turn, std::memory_order_release);
  return handle_bits(process_.load(std::memory_order_relaxed), turn);
}

EventPair NextProfiler::find(std::uint64_t handle) {
  if (handle == 0) return {};
  const std::uint64_t turn = handle & kTurnMask;
  Pair& place = pairs_[turn % kPairs];
  const bool ours = handle == handle_bits(process_.load(std::memory_order_relaxed), turn);
  const bool before = place.turn.load(std::memory_order_acquire) == turn;
  const EventPair pair{place.ours.load(std::memory_order_acquire), place.theirs.load(std::memory_order_acquire)};
  return ours && before && place.turn.load(std::memory_order_relaxed) == turn ? pair : EventPair{};
}

void NextProfiler::stop(const EventPair& pair) const {
  if (pair.theirs != nullptr) (void)(version_ == 4 ? v4_->stop_event : v5_->stop_event)(pair.theirs);
}

void NextProfiler::record(const EventPair& pair, int state, StateArguments* arguments) const {
  if (pair.theirs == nullptr) return;
  (void)(version_ == 4 ? v4_->record_event_state : v5_->record_event_state)(pair.theirs, state, arguments);
}

void NextProfiler::finalize(void* context) const {
  (void)(version_ == 4 ? v4_->finalize : v5_->finalize)(context);
}

}  // namespace trimtab::nccl
