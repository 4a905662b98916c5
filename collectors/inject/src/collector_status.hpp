#pragma once

// What the collectors of a process cost and lose, and how much they may record at present: one place for CUPTI's
// callbacks, the flush thread and NCCL's plugins, copied into the ring's header for the agent. Any thread may call
// anything; nothing waits.

#include <atomic>
#include <cstdint>

#include "schema/record.hpp"

namespace trimtab::inject {

struct CollectorStatus {
  std::atomic<std::uint32_t> detail{record::kDetailCollectives};  // record::Detail; CUPTI raises it when it starts
  std::atomic<std::uint32_t> cupti_state{record::kCuptiNotAsked};
  std::atomic<bool> injected{false};  // CUDA's driver has called us
  std::atomic<std::uint32_t> cupti_version{0};
  std::atomic<std::uint32_t> budget_ppm{0};
  std::atomic<std::uint64_t> cost_ns{0};
  std::atomic<std::uint64_t> lost_stamps{0};
  std::atomic<std::uint64_t> cupti_dropped{0};
  // Who else follows the level (NCCL's plugin): the collector's thread calls it on each of its turns, and again after
  // the nanoseconds that it returns, if the thread has nothing to do before. nullptr: nobody.
  using Follower = std::uint64_t (*)();
  std::atomic<Follower> follower{nullptr};

  // Time taken from the job, by whoever took it.
  void add_cost(std::uint64_t ns) { cost_ns.fetch_add(ns, std::memory_order_relaxed); }
  [[nodiscard]] bool allows(record::Detail level) const { return detail.load(std::memory_order_relaxed) >= level; }

  void copy_to(record::RingHeader& header) const {
    copy(detail, header.detail);
    copy(cupti_state, header.cupti_state);
    copy(cupti_version, header.cupti_version);
    copy(budget_ppm, header.budget_ppm);
    copy(cost_ns, header.cost_ns);
    copy(lost_stamps, header.lost_stamps);
    copy(cupti_dropped, header.cupti_dropped);
  }

 private:
  template <typename T>
  static void copy(const std::atomic<T>& from, std::atomic<T>& to) {
    to.store(from.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
};

// The process's only one.
inline constinit CollectorStatus collector_status;

}  // namespace trimtab::inject
