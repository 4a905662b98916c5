#pragma once

// Ranges, marks and thread names into the ring: what the NVTX callbacks and the C interface are made of. Any thread may
// call any function; none blocks, allocates once the thread is known, or fails. With no agent there they return at
// once.

#include <atomic>
#include <cstdint>

#include "range_gate.hpp"
#include "session.hpp"
#include "thread_state.hpp"

namespace trimtab::inject {

inline constexpr std::uint32_t kMaxDomains = 256;
inline constexpr std::uint32_t kMaxStrings = 4096;
extern HandleMemory<kMaxDomains> domain_memory;
extern HandleMemory<kMaxStrings> string_memory;
inline constexpr int kNotTracked = -2;  // NVTX_NO_PUSH_POP_TRACKING

// What an event carries; at most one of `text` and `registered` is set.
struct Event {
  const char* text = nullptr;  // NUL-terminated
  std::uint32_t registered = 0;
  bool volatile_text = false;  // `text` is a buffer of ours: not worth remembering by address
  std::int64_t payload = 0;
  bool has_payload = false;
};

struct Recorder {
  Session session;
  ThreadStates threads;
  OpenTable started;
  HandleTable domains{domain_memory};
  HandleTable strings{string_memory};

  // The range's depth on its thread, or kNotTracked. `domain` is a handle of `domains`, 0 the default domain.
  int push(std::uint32_t domain, const Event& event);
  int pop(std::uint32_t domain);
  // 0: not recorded.
  std::uint64_t start(std::uint32_t domain, const Event& event);
  void end(std::uint64_t id);
  void mark(std::uint32_t domain, const Event& event);
  void name_thread(std::uint32_t thread, const char* name);

  // Whether ranges and marks are recorded now.
  bool wants() { return range_gate.open() && session.recording(); }

  // Publishes what a thread that ends has left open.
  void abandon(ThreadState& state);
  // Publishes all that is open in the process, then closes.
  void finish();
  void restart_after_fork();

 private:
  std::uint32_t name_of(ThreadState& state, const Event& event);
  void publish_closed(const ClosedRange& range, std::uint64_t end_ns, std::uint32_t thread, std::uint32_t flags,
                      std::uint32_t depth);
  void publish_open(const ThreadState& state, std::uint64_t end_ns);
  // nullptr where nothing is recorded, or no room is left for the thread, which is counted.
  ThreadState* recording_thread();
  // The gate was shut since the thread was here: what it had open is over.
  void forget_open(ThreadState& state, std::uint32_t era);
  void count_range(ThreadState& state, std::uint64_t now_ns);
  // The time at which a range begins; the connection is looked after before.
  std::uint64_t begin_now();
  // Whether a name of the ring is that of a training step (docs/protocols.md, "Ranges").
  bool is_step(std::uint32_t name);

  std::atomic<std::uint32_t> step_{0};  // handle of "step"
};

// What happens around the recorder: a fork, the end of a thread, the end of the process. Once a process, before the
// first range. False when the process has no pthread key left.
bool watch_process();

// The process's only one. Constant-initialised, never destroyed: the host may call us during its own destruction.
extern Recorder recorder;

}  // namespace trimtab::inject
