#include "detail.hpp"

#include "abi.hpp"
#include "schema/nccl.hpp"

namespace trimtab::nccl {

namespace {

constexpr int kTimed = static_cast<int>(kCollectiveEvent | kP2pEvent | kKernelChannelEvent);

}  // namespace

int DetailControl::wanted() const {
  const bool allowed = allowed_.load(std::memory_order_relaxed) && affordable_.load(std::memory_order_relaxed);
  const bool timed =
      allowed && detail() != Detail::kOff && (detail() == Detail::kFull || open_.load(std::memory_order_relaxed));
  return (timed ? kTimed : 0) | also_.load(std::memory_order_relaxed);
}

void DetailControl::write() {
  const int mask = wanted();
  for (auto& known : masks_) {
    int* const theirs = known.load(std::memory_order_acquire);
    if (theirs != nullptr && __atomic_load_n(theirs, __ATOMIC_RELAXED) != mask) {
      __atomic_store_n(theirs, mask, __ATOMIC_RELAXED);
    }
  }
}

void DetailControl::set(Detail detail) {
  detail_.store(static_cast<int>(detail), std::memory_order_relaxed);
  open_.store(true, std::memory_order_relaxed);
  write();
}

void DetailControl::keep(std::uint64_t realtime_ns) {
  const bool open = window_open(realtime_ns);
  if (open_.exchange(open, std::memory_order_relaxed) != open) write();
}

void DetailControl::follow_budget(bool allows) {
  if (affordable_.exchange(allows, std::memory_order_relaxed) != allows) write();
}

bool DetailControl::adopt(int* mask) {
  if (mask == nullptr) return false;
  for (auto& known : masks_) {
    int* held = known.load(std::memory_order_acquire);
    if (held == nullptr) known.compare_exchange_strong(held, mask, std::memory_order_acq_rel);
    if (known.load(std::memory_order_acquire) != mask) continue;
    write();
    return true;
  }
  return false;
}

void DetailControl::forget() {
  for (auto& known : masks_) known.store(nullptr, std::memory_order_release);
}

void DetailControl::want_also(int mask) {
  if (also_.exchange(mask, std::memory_order_relaxed) != mask) write();
}

Detail parse_detail(const char* text) {
  if (text == nullptr) return Detail::kFull;
  if (same_text(text, "off")) return Detail::kOff;
  return same_text(text, "sampled") ? Detail::kSampled : Detail::kFull;
}

}  // namespace trimtab::nccl
