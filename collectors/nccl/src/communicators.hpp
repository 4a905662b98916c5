#pragma once

// The process's communicators, as NCCL introduced them. A fixed table; the address of an entry is the context that NCCL
// hands back with each event. Entries are claimed and released without locks; any thread.

#include <atomic>
#include <cstdint>

#include "abi.hpp"
#include "collective_slots.hpp"

namespace trimtab::nccl {

// One communicator's GPU clock beside the host's: of the pairs of readings of about a second, the two that say most.
// A host's reading is taken some time before or after the GPU's stamp; of a delay that is never negative the shortest
// bounds the clocks' difference best (a minimum filter, as in NTP's clock filter, RFC 5905, section 10). Any thread; a
// pair that would have to wait for another thread's is left out.

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

// What ran last on a channel: works that NCCL fuses into one batch have one start stamp.
struct LastOnChannel {
  std::atomic<std::uint64_t> stamp{0};
  std::atomic<std::uint64_t> slot{0};  // index << 32 | generation
};

struct Communicator {
  std::atomic<std::uint32_t> taken{0};
  std::atomic<std::uint64_t> id{0};
  std::atomic<std::uint32_t> ranks{0};
  std::atomic<std::uint32_t> rank{0};
  std::atomic<std::uint32_t> nodes{0};
  std::atomic<Logger> logger{nullptr};
  std::atomic<std::uint64_t> ring_name{0};  // ring generation << 32 | index of the id's text in that ring
  std::atomic<void*> next_context{nullptr};
  std::atomic<bool> forwarded{false};  // the next plugin accepted it
  LastOnChannel last[kMaxChannels];
  ClockPairs clocks;
};

class Communicators {
 public:
  static constexpr std::uint32_t kCapacity = 512;

  constexpr Communicators() = default;

  // nullptr when there are kCapacity already.
  Communicator* add(std::uint64_t id, int nodes, int ranks, int rank, Logger logger);
  // The entry that a context stands for; nullptr for nullptr and for what we never gave.
  Communicator* find(const void* context);
  [[nodiscard]] std::uint32_t index_of(const Communicator& communicator) const {
    return static_cast<std::uint32_t>(&communicator - entries_);
  }
  [[nodiscard]] Communicator& operator[](std::uint32_t index) { return entries_[index]; }
  void remove(Communicator& communicator);
  [[nodiscard]] bool empty() const { return count_.load(std::memory_order_acquire) == 0; }

 private:
  std::atomic<std::uint32_t> count_{0};
  Communicator entries_[kCapacity];
};

}  // namespace trimtab::nccl
