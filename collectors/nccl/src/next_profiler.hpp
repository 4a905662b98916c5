#pragma once

// Another profiler plugin behind ours. NCCL loads one; where TRIMTAB_NCCL_PROFILER_NEXT names a second (a path, a file
// name or a suffix, as NCCL_PROFILER_PLUGIN would), it is called as NCCL would call it, with the events that it asked
// for and with its own handles and contexts.
//
// Each of NCCL's handles then stands for a pair. Pairs live in a ring of kPairs: an event outlives its stop, because
// children name it later, so nobody could say when it is over. Who names one that has been reused gets nothing. Any
// thread after load(); memory is taken only when there is a second plugin.

#include <atomic>
#include <cstdint>

#include "abi.hpp"

namespace trimtab::nccl {

struct EventPair {
  std::uint64_t ours = 0;
  void* theirs = nullptr;
};

class NextProfiler {
 public:
  static constexpr std::uint32_t kPairs = 1U << 16;

  constexpr NextProfiler() = default;

  // Once a process. `version` is the one that NCCL took of ours; a plugin that does not offer that version is refused
  // with a warning. `name` nullptr or empty = there is none.
  void load(const char* name, int version, std::uint32_t process, Logger logger);
  // A forked child is another process.
  void serve(std::uint32_t process) { process_.store(process, std::memory_order_relaxed); }
  [[nodiscard]] bool loaded() const { return loaded_.load(std::memory_order_acquire); }

  [[nodiscard]] int version() const { return version_; }

  // REQUIRES for all below: loaded().
  // False when it fails, which NCCL never sees: this communicator goes on without it.
  bool init(void** context, std::uint64_t communicator, const char* name, int nodes, int ranks, int rank,
            Logger logger);
  // The event types that it has asked for so far; it may change its mind at any time.
  [[nodiscard]] int mask() const { return __atomic_load_n(&mask_, __ATOMIC_RELAXED); }
  // NCCL's handle for our event and its; 0 when neither wants the event. `context` is the next plugin's own.
  std::uint64_t start(void* context, std::uint64_t type, const EventDescriptor& descriptor, std::size_t bytes,
                      std::uint64_t ours, bool forward);
  // Ours and theirs of a handle; both 0 for one that is not known (any more).
  EventPair find(std::uint64_t handle);
  void stop(const EventPair& pair) const;
  void record(const EventPair& pair, int state, StateArguments* arguments) const;
  void finalize(void* context) const;

 private:
  struct Pair {
    std::atomic<std::uint64_t> turn{0};  // 0 while it is being written
    std::atomic<std::uint64_t> ours{0};
    std::atomic<void*> theirs{nullptr};
  };
  bool resolve(void* library, int version, Logger logger, const char* name);
  [[nodiscard]] bool wants(std::uint64_t type) const;
  std::uint64_t keep(const EventPair& pair);

  std::atomic<bool> loaded_{false};
  std::atomic<std::uint32_t> process_{0};
  int version_ = 0;
  const ProfilerV4* v4_ = nullptr;  // one of them
  const ProfilerV5* v5_ = nullptr;
  int mask_ = 0;  // written by it
  Pair* pairs_ = nullptr;
  std::atomic<std::uint64_t> cursor_{0};
};

}  // namespace trimtab::nccl
