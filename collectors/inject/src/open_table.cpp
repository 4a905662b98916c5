#include "open_table.hpp"

namespace trimtab::inject {

namespace {

constexpr std::uint64_t kFree = 0;
constexpr std::uint64_t kBusy = ~std::uint64_t{0};
constexpr std::uint32_t kProbes = 64;

}  // namespace

std::uint64_t OpenTable::start(const ClosedRange& range, std::uint32_t thread) {
  const std::uint64_t serial = serial_.fetch_add(1, std::memory_order_relaxed);
  for (std::uint32_t probe = 0; probe < kProbes; ++probe) {
    const std::uint64_t index = (serial + probe) & (kMaxStarted - 1);
    StartedRange& slot = slots_[index];
    std::uint64_t free = kFree;
    if (!slot.id.compare_exchange_strong(free, kBusy, std::memory_order_acquire)) continue;
    slot.range.begin_ns.store(range.begin_ns, std::memory_order_relaxed);
    slot.range.payload.store(range.payload, std::memory_order_relaxed);
    slot.range.name.store(range.name, std::memory_order_relaxed);
    slot.range.domain.store(range.domain, std::memory_order_relaxed);
    slot.range.flags.store(range.flags, std::memory_order_relaxed);
    slot.thread.store(thread, std::memory_order_relaxed);
    const std::uint64_t id = serial * kMaxStarted + index;  // never 0: serials start at 1
    slot.id.store(id, std::memory_order_release);
    return id;
  }
  return 0;
}

bool OpenTable::end(std::uint64_t id, ClosedRange& range, std::uint32_t& thread) {
  if (id == kFree || id == kBusy) return false;
  StartedRange& slot = slots_[id & (kMaxStarted - 1)];
  if (!slot.id.compare_exchange_strong(id, kBusy, std::memory_order_acquire)) return false;
  range = snapshot(slot.range);
  thread = slot.thread.load(std::memory_order_relaxed);
  slot.id.store(kFree, std::memory_order_release);
  return true;
}

void OpenTable::clear() {
  for (StartedRange& slot : slots_) slot.id.store(kFree, std::memory_order_relaxed);
}

}  // namespace trimtab::inject
