#include "clock_pairs.hpp"

namespace trimtab::nccl {

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

}  // namespace trimtab::nccl
