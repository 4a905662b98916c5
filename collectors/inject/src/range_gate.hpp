#pragma once

// Keeps ranges within the budget: a thread that opens so many that recording all of them would cost more than the part
// of the budget that is theirs has them recorded in bursts. After a burst the gate is shut for all threads, and every
// call returns at its first branch, until the burst is paid for. What was open then is forgotten: its ends find
// nothing, since ranges nest. The time in which the gate was shut becomes a kRangesLeftOut record, so that nobody adds
// up half a step.
//
// A thread of ours opens the gate again. It is started when the gate is first shut; where none can be had the gate
// stays open. Any thread may call any method; nothing blocks.

#include <atomic>
#include <cstdint>

#include "wakeup.hpp"

namespace trimtab::inject {

class Session;

class RangeGate {
 public:
  static constexpr std::uint64_t kBurst = 8192;  // ranges of one thread
  static constexpr std::uint64_t kRangeCostNs =
      80;                                // a push and a pop (bench_inject), with what they evict from caches
  static constexpr double kPart = 0.25;  // of the budget

  constexpr RangeGate() = default;

  // The gate in front of everything.
  [[nodiscard]] bool open() const { return open_.load(std::memory_order_relaxed); }
  // Changes whenever the gate is opened: what a thread has open of an earlier era is over.
  [[nodiscard]] std::uint32_t era() const { return era_.load(std::memory_order_acquire); }

  // How long a burst that took `elapsed_ns` is to be followed by silence; 0: it cost no more than it may. Pure.
  [[nodiscard]] static std::uint64_t pause_ns(std::uint64_t elapsed_ns, double budget);
  // A thread has recorded a burst that began so long before `now_ns` (real time).
  void burst_ended(Session& session, std::uint64_t began_ns, std::uint64_t now_ns);
  // In a forked child: the thread is gone.
  void restart_after_fork();

 private:
  static void* main(void* self);
  void run();
  bool start();

  std::atomic<bool> open_{true};
  std::atomic<bool> shutting_{false};  // one thread at a time
  std::atomic<std::uint32_t> era_{0};
  std::atomic<int> pid_{0};  // of the process that the thread belongs to
  std::uint64_t shut_ns_ = 0;
  std::uint64_t due_ns_ = 0;  // monotonic
  Session* session_ = nullptr;
  Wakeup wake_;
};

// The process's only one.
extern RangeGate range_gate;

}  // namespace trimtab::inject
