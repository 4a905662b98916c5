#pragma once

// The process's communicators, as NCCL introduced them. A fixed table; the address of an entry is the context that NCCL
// hands back with each event. Entries are claimed and released without locks; any thread.

#include <atomic>
#include <cstdint>

#include "abi.hpp"
#include "clock_pairs.hpp"
#include "collective_slots.hpp"

namespace trimtab::nccl {

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
