#pragma once

// The collectives that are under way: a fixed pool of slots that any thread claims, adds GPU stamps to and gives back,
// without locks. A claim that finds no slot fails at once. A slot whose events never came to an end (an aborted
// communicator, a collective without channel events) is taken over when room is needed and its time is up.
//
// A slot's owner changes with its generation, which is part of every handle: what arrives late for an earlier owner
// changes nothing. But for one case: an event that finds its slot its own, and is held up there while the slot's time
// runs out (kSilentNs at least) and another takes it over, still leaves its stamp with that one.

#include <atomic>
#include <cstdint>

#include "schema/nccl.hpp"

namespace trimtab::nccl {

// What is known of a collective when NCCL enqueues it. Plain: written by who claims, read by who completes. All zeros
// at first, so that the pool lies in zeroed memory and takes no room in the file.
struct CollectiveFacts {
  std::uint64_t communicator = 0;
  std::int64_t bytes = 0;
  std::uint32_t communicator_index = 0;
  std::uint32_t sequence = 0;  // of a p2p: the peer
  std::uint32_t ranks = 0;
  std::uint32_t rank = 0;
  std::uint32_t nodes = 0;
  std::uint8_t function = 0;  // schema/nccl.hpp
  std::uint8_t algorithm = 0;
  std::uint8_t protocol = 0;
  std::uint8_t datatype = 0;
  std::uint8_t channels = 0;
  bool p2p = false;
  std::uint64_t asked_ns = 0;  // CLOCK_REALTIME when NCCL enqueued it; 0 = nobody looked
};

struct CompletedCollective {
  CollectiveFacts facts;
  std::uint64_t begin_ns = 0;  // the earliest start of a channel
  std::uint64_t end_ns = 0;    // the latest stop
  bool fused = false;
  bool sound = false;  // every channel gave a start and a later stop
};

struct SlotReference {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
};

class CollectiveSlots {
 public:
  static constexpr std::uint32_t kSlots = 2048;
  static constexpr std::uint64_t kSilentNs = 1'000'000'000;       // without any channel event
  static constexpr std::uint64_t kUnfinishedNs = 60'000'000'000;  // with some

  constexpr CollectiveSlots() = default;

  // False when all slots are taken. `taken_over` tells that an earlier collective was given up. The slot is complete
  // after finish_host() and finish_channel() for each of facts.channels. REQUIRES: 1 <= channels <= kMaxChannels.
  bool claim(const CollectiveFacts& facts, std::uint64_t now_ns, SlotReference& slot, bool& taken_over);

  // All of these are false when the slot has another owner by now, or the channel is not in the state for it.
  bool start_channel(const SlotReference& slot, std::uint32_t channel, std::uint64_t stamp);
  bool stamp_stop(const SlotReference& slot, std::uint32_t channel, std::uint64_t stamp);
  void mark_fused(const SlotReference& slot);
  bool communicator_of(const SlotReference& slot, std::uint32_t& index);
  // True for the call that completes the slot, which is free again then.
  bool finish_channel(const SlotReference& slot, std::uint32_t channel, CompletedCollective& completed);
  bool finish_host(const SlotReference& slot, CompletedCollective& completed);

 private:
  struct Slot {
    std::atomic<std::uint64_t> state{0};  // generation << 32 | host has stopped << 16 | events that are to come
    std::atomic<std::uint64_t> claimed_ns{0};
    std::atomic<std::uint64_t> first{0};
    std::atomic<std::uint64_t> last{0};
    std::atomic<std::uint32_t> stamped{0};  // channels with a sound pair
    std::atomic<bool> fused{false};
    std::atomic<std::uint32_t> communicator{0};  // facts.communicator_index, for who is not the owner
    CollectiveFacts facts;
    std::atomic<std::uint64_t> starts[kMaxChannels];  // 0 = not running, kStamped = has its stop
  };
  [[nodiscard]] Slot* owned(const SlotReference& slot);
  static bool expired(const Slot& slot, std::uint64_t state, std::uint64_t now_ns);
  static void occupy(Slot& slot, const CollectiveFacts& facts, std::uint64_t now_ns);
  bool arrive(const SlotReference& slot, bool host, CompletedCollective& completed);

  std::atomic<std::uint32_t> cursor_{0};
  Slot slots_[kSlots];
};

// What NCCL holds as "void*" for an event of ours: not an address, so that a handle which is old, of another process
// (PXN runs a rank's proxy operations elsewhere) or of another plugin is recognised and nothing is ever dereferenced.
// Top bit set: no address of a Linux program looks like it. 0 is no event.

struct EventHandle {
  static constexpr std::uint32_t kCollectivePart = 0;  // the collective or p2p itself; channel c is part c + 1
  static constexpr std::uint32_t kGroupPart = 0xff;    // a group: only acknowledged

  std::uint32_t process = 0;     // 15 bits
  std::uint32_t generation = 0;  // 24 bits, of its slot
  std::uint32_t index = 0;       // 16 bits
  std::uint32_t part = 0;        // 8 bits

  static constexpr std::uint32_t kGenerationMask = 0xffffff;

  [[nodiscard]] std::uint64_t bits() const {
    return std::uint64_t{1} << 63 | std::uint64_t{process & 0x7fff} << 48 |
           std::uint64_t{generation & kGenerationMask} << 24 | std::uint64_t{index & 0xffff} << 8 | (part & 0xff);
  }
  // False for what no handle of that process looks like.
  static bool parse(std::uint64_t bits, std::uint32_t process, EventHandle& handle) {
    handle.process = static_cast<std::uint32_t>(bits >> 48) & 0x7fff;
    handle.generation = static_cast<std::uint32_t>(bits >> 24) & kGenerationMask;
    handle.index = static_cast<std::uint32_t>(bits >> 8) & 0xffff;
    handle.part = static_cast<std::uint32_t>(bits) & 0xff;
    return bits >> 63 == 1 && handle.process == (process & 0x7fff);
  }
};

}  // namespace trimtab::nccl
