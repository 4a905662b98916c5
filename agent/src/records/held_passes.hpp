#pragma once

// Passes of a host's operators that wait until it is known whether another thread's communication ran beside them: a
// range is published when it ends, and an all-reduce may end long after the pass that it slowed down. Bounded: beyond
// kMostPasses the older half is told by what is known then. Pure. Single-threaded.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "costs/communication_times.hpp"
#include "schema/statistics.hpp"

namespace trimtab::agent {

class HeldPasses final {
 public:
  static constexpr std::size_t kMostPasses = 16384;

  // Where a pass's duration goes. Both must outlive the pass.
  struct Into {
    Statistics* alone = nullptr;
    Statistics* beside = nullptr;
  };

  void pass(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint32_t thread, Into into);
  void communication(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint32_t thread) {
    communications_.add(begin_ns, end_ns, thread);
  }
  // Passes of the step before are told now.
  void step_ended(std::uint64_t end_ns);
  // Tells what had ended by then, for jobs that name no steps.
  void release_before(std::uint64_t ns) { tell_until(ns); }
  // Tells all.
  void release();

 private:
  struct Pass {
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
    std::uint32_t thread = 0;
    Into into;
  };
  void tell_until(std::uint64_t end_ns);

  std::vector<Pass> passes_;  // as they ended
  CommunicationTimes communications_;
  std::uint64_t step_end_ns_ = 0;
};

}  // namespace trimtab::agent
