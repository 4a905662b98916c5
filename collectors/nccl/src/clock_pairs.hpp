#pragma once

// One communicator's GPU clock beside the host's: of the pairs of readings of about a second, the two that say most.
// A host's reading is taken some time before or after the GPU's stamp; of a delay that is never negative the shortest
// bounds the clocks' difference best (a minimum filter, as in NTP's clock filter, RFC 5905, section 10). Any thread; a
// pair that would have to wait for another thread's is left out.

#include <atomic>
#include <cstdint>

namespace trimtab::nccl {

struct ClockPair {
  std::uint64_t gpu_ns = 0;     // %globaltimer; 0 = there is none
  std::int64_t difference = 0;  // gpu_ns less the host's reading
};

struct ClockBounds {
  ClockPair after;   // the host read its clock after the stamp: the largest difference
  ClockPair before;  // before it: the smallest
};

class ClockPairs {
 public:
  static constexpr std::uint64_t kPeriodNs = 1'000'000'000;

  constexpr ClockPairs() = default;

  // `host_ns` (CLOCK_REALTIME) 0: nobody has read it.
  void read_after(std::uint64_t gpu_ns, std::uint64_t host_ns) { note(bounds_.after, gpu_ns, host_ns, 1); }
  void read_before(std::uint64_t gpu_ns, std::uint64_t host_ns) { note(bounds_.before, gpu_ns, host_ns, -1); }
  // True, about once a period and at once the first time: `bounds` has those since the last time, and they are gone.
  bool take(std::uint64_t host_ns, ClockBounds& bounds);
  // The entry belongs to another communicator now. REQUIRES: no other call runs.
  void clear();

 private:
  void note(ClockPair& kept, std::uint64_t gpu_ns, std::uint64_t host_ns, std::int64_t sign);

  std::atomic<bool> busy_{false};
  std::atomic<std::uint64_t> taken_ns_{0};
  ClockBounds bounds_;  // by who holds busy_
};

}  // namespace trimtab::nccl
