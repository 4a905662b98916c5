#include "communicators.hpp"

namespace trimtab::nccl {

namespace {

std::uint32_t number(int value) {
  return value < 0 ? 0 : static_cast<std::uint32_t>(value);
}

}  // namespace

void ClockPairs::note(ClockPair& kept, std::uint64_t gpu_ns, std::uint64_t host_ns, std::int64_t sign) {
  if (gpu_ns == 0 || host_ns == 0 || busy_.exchange(true, std::memory_order_acquire)) return;
  const auto difference = static_cast<std::int64_t>(gpu_ns - host_ns);
  if (kept.gpu_ns == 0 || sign * (difference - kept.difference) > 0) kept = {gpu_ns, difference};
  busy_.store(false, std::memory_order_release);
}

bool ClockPairs::take(std::uint64_t host_ns, ClockBounds& bounds) {
  const std::uint64_t taken = taken_ns_.load(std::memory_order_relaxed);
  // A host's clock that was set back is no reason to wait for the time it was.
  if (taken != 0 && host_ns >= taken && host_ns - taken < kPeriodNs) return false;
  if (busy_.exchange(true, std::memory_order_acquire)) return false;
  bounds = bounds_;
  const bool any = bounds.after.gpu_ns != 0 || bounds.before.gpu_ns != 0;
  if (any) {
    bounds_ = {};
    taken_ns_.store(host_ns, std::memory_order_relaxed);
  }
  busy_.store(false, std::memory_order_release);
  return any;
}

void ClockPairs::clear() {
  bounds_ = {};
  taken_ns_.store(0, std::memory_order_relaxed);
}

Communicator* Communicators::add(std::uint64_t id, int nodes, int ranks, int rank, Logger logger) {
  for (Communicator& entry : entries_) {
    std::uint32_t free = 0;
    if (!entry.taken.compare_exchange_strong(free, 1, std::memory_order_acquire)) continue;
    entry.id.store(id, std::memory_order_relaxed);
    entry.nodes.store(number(nodes), std::memory_order_relaxed);
    entry.ranks.store(number(ranks), std::memory_order_relaxed);
    entry.rank.store(number(rank), std::memory_order_relaxed);
    entry.logger.store(logger, std::memory_order_relaxed);
    entry.ring_name.store(0, std::memory_order_relaxed);
    entry.next_context.store(nullptr, std::memory_order_relaxed);
    entry.forwarded.store(false, std::memory_order_relaxed);
    for (LastOnChannel& last : entry.last) {
      last.stamp.store(0, std::memory_order_relaxed);
      last.slot.store(0, std::memory_order_relaxed);
    }
    entry.clocks.clear();
    count_.fetch_add(1, std::memory_order_release);
    return &entry;
  }
  return nullptr;
}

Communicator* Communicators::find(const void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(context);
  const auto first = reinterpret_cast<std::uintptr_t>(&entries_[0]);
  if (address < first || address >= first + sizeof(entries_) || (address - first) % sizeof(Communicator) != 0) {
    return nullptr;
  }
  Communicator& entry = entries_[(address - first) / sizeof(Communicator)];
  return entry.taken.load(std::memory_order_acquire) != 0 ? &entry : nullptr;
}

void Communicators::remove(Communicator& communicator) {
  if (communicator.taken.exchange(0, std::memory_order_release) != 0) count_.fetch_sub(1, std::memory_order_release);
}

}  // namespace trimtab::nccl
