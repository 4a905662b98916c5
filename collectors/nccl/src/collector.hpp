#pragma once

// From NCCL's events to completed collectives: their GPU time is from the first channel's start to the last channel's
// stop. Any thread; no call waits, allocates or fails. Independent of the ring, so that tests can look on.

#include <atomic>
#include <cstdint>

#include "abi.hpp"
#include "collective_slots.hpp"
#include "communicators.hpp"

namespace trimtab::nccl {

// What was not timed, and why. Each collective counts at most once, besides in `late`.
struct CollectorCounters {
  std::atomic<std::uint64_t> completed{0};
  std::atomic<std::uint64_t> dropped{0};     // no slot was free
  std::atomic<std::uint64_t> unfinished{0};  // its events never came to an end; its slot was given to another
  std::atomic<std::uint64_t> unsound{0};     // a channel without a pair of stamps, or with one that runs backwards
  std::atomic<std::uint64_t> untimed{0};     // no channels were announced, or no communicator is known
  std::atomic<std::uint64_t> late{0};        // events for what is over, or of another process
};

class Collector {
 public:
  // Called for each sound collective, on NCCL's thread.
  using Publish = void (*)(const CompletedCollective& completed);

  // The tables must outlive it; they are apart so that they lie in zeroed memory.
  constexpr Collector(Publish publish, Communicators& communicators, CollectiveSlots& slots)
      : publish_(publish), communicators_(communicators), slots_(slots) {}

  // Before the first event. In a forked child again: its parent's events are not its own, and are refused from then on.
  void serve(std::uint32_t process) { process_.store(process, std::memory_order_relaxed); }

  // The handle that NCCL is to have; 0 for what is not followed. `type` is the descriptor's, read as its version says.
  // `now_ns` is monotonic and may be coarse; `host_ns` is CLOCK_REALTIME, read at the event, and 0 leaves the event out
  // of the comparison of clocks.
  std::uint64_t start(const Communicator* communicator, std::uint64_t type, const EventDescriptor& descriptor,
                      std::uint64_t now_ns, std::uint64_t host_ns = 0);
  void stop(std::uint64_t handle);
  void record(std::uint64_t handle, int state, const StateArguments* arguments, std::uint64_t host_ns = 0);

  [[nodiscard]] const CollectorCounters& counters() const { return counters_; }

 private:
  [[nodiscard]] std::uint64_t handle_of(const SlotReference& slot, std::uint32_t part) const;
  std::uint64_t start_collective(const Communicator* communicator, CollectiveFacts facts, std::uint64_t now_ns);
  std::uint64_t start_channel(const EventDescriptor& descriptor, std::uint64_t host_ns);
  void read_after(const SlotReference& slot, std::uint64_t stamp, std::uint64_t host_ns);
  void notice_fusion(const SlotReference& slot, const KernelChannelDescriptor& channel);
  void complete(const CompletedCollective& completed);

  Publish publish_;
  std::atomic<std::uint32_t> process_{0};
  CollectorCounters counters_;
  Communicators& communicators_;
  CollectiveSlots& slots_;
};

}  // namespace trimtab::nccl
