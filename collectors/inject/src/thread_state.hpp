#pragma once

// What the library knows of one thread: its open ranges and the names it used lately. Found through a pthread key, not
// a thread-local variable: a dlopened library must not depend on room in the static TLS block. Written by its own
// thread; at the end of the process another thread reads the open ranges once, hence the atomics.

#include <atomic>
#include <cstdint>

namespace trimtab::inject {

inline constexpr std::uint32_t kMaxDepth = 128;
inline constexpr std::uint32_t kCachedNames = 256;
inline constexpr std::uint32_t kOverflowDomains = 8;
inline constexpr std::uint32_t kMaxThreads = 1024;

struct OpenRange {
  std::atomic<std::uint64_t> begin_ns{0};
  std::atomic<std::int64_t> payload{0};
  std::atomic<std::uint32_t> name{0};    // in the ring
  std::atomic<std::uint32_t> domain{0};  // a handle
  std::atomic<std::uint32_t> flags{0};
  std::atomic<std::uint32_t> id{0};  // that CUPTI knows it by; 0 = none
};

struct CachedName {
  const char* text = nullptr;
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
};

// Ranges deeper than kMaxDepth are only counted, by domain, so that their pops find no range of others.
struct Overflow {
  std::uint32_t domain = 0;
  std::uint32_t count = 0;
};

struct ThreadState {
  std::atomic<bool> taken{false};
  std::atomic<std::uint32_t> depth{0};
  std::uint32_t thread = 0;  // kernel thread id
  std::uint32_t overflowing = 0;
  std::uint32_t era = 0;       // of RangeGate
  std::uint32_t ranges = 0;    // of this burst
  std::uint64_t burst_ns = 0;  // when it began
  Overflow overflow[kOverflowDomains];
  OpenRange open[kMaxDepth];
  CachedName names[kCachedNames];
};

// Remembers a push that has no room; false when too many domains overflow at once.
bool enter_overflow(ThreadState& state, std::uint32_t domain);
// True when the pop belongs to a push without room.
bool leave_overflow(ThreadState& state, std::uint32_t domain);

// Removes the innermost open range of the domain; its depth, or -1 when there is none.
// `range` is where it is copied to (plain loads and stores of the owning thread).
struct ClosedRange {
  std::uint64_t begin_ns = 0;
  std::int64_t payload = 0;
  std::uint32_t name = 0;
  std::uint32_t domain = 0;
  std::uint32_t flags = 0;
  std::uint32_t id = 0;
};
ClosedRange snapshot(const OpenRange& range);
void store(OpenRange& range, const ClosedRange& values);
int remove_innermost(ThreadState& state, std::uint32_t domain, ClosedRange& range);

// All threads of the process. The states are mapped on a thread's first range and reused, never unmapped.
class ThreadStates {
 public:
  // Once, before the rest; false when the process has no pthread key left. `on_exit` runs in an ending thread.
  bool start(void (*on_exit)(void*));
  // The calling thread's state, nullptr when there are kMaxThreads already or no memory.
  ThreadState* current();
  static void release(ThreadState& state);
  // In a forked child: all other threads are gone, and the caller's open ranges are its parent's.
  void reset_after_fork();

  template <typename Visit>
  void for_each(Visit visit) {
    for (auto& state : states_) {
      ThreadState* known = state.load(std::memory_order_acquire);
      if (known != nullptr && known->taken.load(std::memory_order_acquire)) visit(*known);
    }
  }

 private:
  ThreadState* take();

  std::atomic<ThreadState*> states_[kMaxThreads] = {};
  unsigned key_ = 0;
};

// Ranges that one thread may start and another end (nvtxRangeStart, nvtxRangeEnd): a bounded table, lock-free. Any
// thread may call any method; no call waits.

inline constexpr std::uint32_t kMaxStarted = 1024;  // a power of two

struct StartedRange {
  std::atomic<std::uint64_t> id{0};  // 0 free, kBusy being written or taken out
  OpenRange range;
  std::atomic<std::uint32_t> thread{0};
};

class OpenTable {
 public:
  // The range's id; 0 when there is no room.
  std::uint64_t start(const ClosedRange& range, std::uint32_t thread);
  // False for an id that is not open. An id is open for exactly one end().
  bool end(std::uint64_t id, ClosedRange& range, std::uint32_t& thread);
  // In a forked child.
  void clear();

  // Takes out all that are open. For the end of the process.
  template <typename Visit>
  void drain(Visit visit) {
    for (StartedRange& slot : slots_) {
      ClosedRange range;
      std::uint32_t thread = 0;
      if (end(slot.id.load(std::memory_order_relaxed), range, thread)) visit(range, thread);
    }
  }

 private:
  StartedRange slots_[kMaxStarted];
  std::atomic<std::uint64_t> serial_{1};
};

}  // namespace trimtab::inject
