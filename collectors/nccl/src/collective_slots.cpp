#include "collective_slots.hpp"

namespace trimtab::nccl {

namespace {

constexpr std::uint64_t kHostStopped = std::uint64_t{1} << 16;
constexpr std::uint64_t kPendingMask = 0xffff;
constexpr std::uint64_t kBusy = 0xffff;  // pending: somebody is filling or emptying the slot
constexpr std::uint64_t kStamped = 1;
constexpr std::uint32_t kProbes = 16;
// No collective takes a day: such a pair is two stamps of different clocks, or a counter that was overwritten.
constexpr std::uint64_t kLongestNs = 86'400'000'000'000;

std::uint64_t pending_of(std::uint64_t state) {
  return state & kPendingMask;
}

std::uint32_t generation_of(std::uint64_t state) {
  return static_cast<std::uint32_t>(state >> 32) & EventHandle::kGenerationMask;
}

std::uint64_t state_of(std::uint32_t generation, std::uint64_t pending) {
  return std::uint64_t{generation & EventHandle::kGenerationMask} << 32 | pending;
}

void keep_smallest(std::atomic<std::uint64_t>& kept, std::uint64_t value) {
  std::uint64_t known = kept.load(std::memory_order_relaxed);
  while ((known == 0 || value < known) && !kept.compare_exchange_weak(known, value, std::memory_order_relaxed)) {
  }
}

void keep_largest(std::atomic<std::uint64_t>& kept, std::uint64_t value) {
  std::uint64_t known = kept.load(std::memory_order_relaxed);
  while (value > known && !kept.compare_exchange_weak(known, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

bool CollectiveSlots::expired(const Slot& slot, std::uint64_t state, std::uint64_t now_ns) {
  const std::uint64_t claimed = slot.claimed_ns.load(std::memory_order_relaxed);
  const bool silent = (state & kHostStopped) != 0 && slot.stamped.load(std::memory_order_relaxed) == 0;
  return now_ns > claimed && now_ns - claimed > (silent ? kSilentNs : kUnfinishedNs);
}

bool CollectiveSlots::claim(const CollectiveFacts& facts, std::uint64_t now_ns, SlotReference& reference,
                            bool& taken_over) {
  for (std::uint32_t probe = 0; probe < kProbes; ++probe) {
    const std::uint32_t index = cursor_.fetch_add(1, std::memory_order_relaxed) % kSlots;
    Slot& slot = slots_[index];
    std::uint64_t state = slot.state.load(std::memory_order_acquire);
    const std::uint64_t pending = pending_of(state);
    if (pending == kBusy || (pending != 0 && !expired(slot, state, now_ns))) continue;
    const std::uint32_t generation = generation_of(state) + 1;
    if (!slot.state.compare_exchange_strong(state, state_of(generation, kBusy), std::memory_order_acq_rel)) continue;
    occupy(slot, facts, now_ns);
    slot.state.store(state_of(generation, std::uint64_t{facts.channels} + 1), std::memory_order_release);
    reference = {index, generation & EventHandle::kGenerationMask};
    taken_over = pending != 0;
    return true;
  }
  return false;
}

void CollectiveSlots::occupy(Slot& slot, const CollectiveFacts& facts, std::uint64_t now_ns) {
  slot.facts = facts;
  slot.communicator.store(facts.communicator_index, std::memory_order_relaxed);
  slot.claimed_ns.store(now_ns, std::memory_order_relaxed);
  slot.first.store(0, std::memory_order_relaxed);
  slot.last.store(0, std::memory_order_relaxed);
  slot.stamped.store(0, std::memory_order_relaxed);
  slot.fused.store(false, std::memory_order_relaxed);
  for (auto& start : slot.starts) start.store(0, std::memory_order_relaxed);
}

CollectiveSlots::Slot* CollectiveSlots::owned(const SlotReference& reference) {
  if (reference.index >= kSlots) return nullptr;
  Slot& slot = slots_[reference.index];
  const std::uint64_t state = slot.state.load(std::memory_order_acquire);
  const std::uint64_t pending = pending_of(state);
  const bool ours = generation_of(state) == reference.generation && pending != 0 && pending != kBusy;
  return ours ? &slot : nullptr;
}

bool CollectiveSlots::start_channel(const SlotReference& reference, std::uint32_t channel, std::uint64_t stamp) {
  Slot* slot = owned(reference);
  if (slot == nullptr || channel >= kMaxChannels || stamp <= kStamped) return false;
  std::uint64_t idle = 0;
  return slot->starts[channel].compare_exchange_strong(idle, stamp, std::memory_order_relaxed);
}

bool CollectiveSlots::stamp_stop(const SlotReference& reference, std::uint32_t channel, std::uint64_t stamp) {
  Slot* slot = owned(reference);
  if (slot == nullptr || channel >= kMaxChannels) return false;
  const std::uint64_t start = slot->starts[channel].load(std::memory_order_relaxed);
  if (start <= kStamped || stamp < start || stamp - start > kLongestNs) return false;
  slot->starts[channel].store(kStamped, std::memory_order_relaxed);
  keep_smallest(slot->first, start);
  keep_largest(slot->last, stamp);
  slot->stamped.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void CollectiveSlots::mark_fused(const SlotReference& reference) {
  if (Slot* slot = owned(reference)) slot->fused.store(true, std::memory_order_relaxed);
}

bool CollectiveSlots::communicator_of(const SlotReference& reference, std::uint32_t& index) {
  const Slot* slot = owned(reference);
  if (slot == nullptr) return false;
  index = slot->communicator.load(std::memory_order_relaxed);
  return true;
}

bool CollectiveSlots::finish_channel(const SlotReference& reference, std::uint32_t channel,
                                     CompletedCollective& completed) {
  Slot* slot = owned(reference);
  if (slot == nullptr || channel >= kMaxChannels) return false;
  // Only the first stop of a channel that was started counts.
  if (slot->starts[channel].exchange(0, std::memory_order_relaxed) == 0) return false;
  return arrive(reference, false, completed);
}

bool CollectiveSlots::finish_host(const SlotReference& reference, CompletedCollective& completed) {
  return owned(reference) != nullptr && arrive(reference, true, completed);
}

bool CollectiveSlots::arrive(const SlotReference& reference, bool host, CompletedCollective& completed) {
  Slot& slot = slots_[reference.index];
  std::uint64_t state = slot.state.load(std::memory_order_acquire);
  std::uint64_t next = 0;
  do {
    const std::uint64_t pending = pending_of(state);
    const bool ours = generation_of(state) == reference.generation && pending != 0 && pending != kBusy;
    if (!ours || (host && (state & kHostStopped) != 0)) return false;
    next = pending == 1 ? state | kBusy : state - 1;
    if (host) next |= kHostStopped;
  } while (!slot.state.compare_exchange_weak(state, next, std::memory_order_acq_rel));
  if (pending_of(next) != kBusy) return false;
  completed.facts = slot.facts;
  completed.begin_ns = slot.first.load(std::memory_order_relaxed);
  completed.end_ns = slot.last.load(std::memory_order_relaxed);
  completed.fused = slot.fused.load(std::memory_order_relaxed);
  completed.sound = slot.stamped.load(std::memory_order_relaxed) == slot.facts.channels;
  slot.state.store(state_of(reference.generation, 0), std::memory_order_release);
  return true;
}

}  // namespace trimtab::nccl
