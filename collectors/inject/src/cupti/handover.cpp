#include "handover.hpp"

#include <atomic>

namespace trimtab::inject::cupti {

namespace {

// The calls are the process's, whoever makes them.
const Library* real = nullptr;
Handover::StandBack stand_back = nullptr;
Handover::Ended ended = nullptr;
std::atomic<bool> kernels_off{false};  // by the other, who has not taken what was recorded yet

Result another_sets_clock(Timestamp clock) {
  stand_back();
  return real->register_timestamp(clock);
}

Result another_registers(BufferRequested requested, BufferCompleted completed) {
  stand_back();
  kernels_off.store(false, std::memory_order_relaxed);
  return real->register_callbacks(requested, completed);
}

Result another_disables(std::uint32_t kind) {
  const Result result = real->disable(kind);
  if (kind == kKindConcurrentKernel || kind == kKindKernel) {
    kernels_off.store(true, std::memory_order_relaxed);
    ended(false);
  }
  return result;
}

Result another_flushes(std::uint32_t flags) {
  const Result result = real->flush_all(flags);
  if ((flags & kFlushForced) != 0 && kernels_off.exchange(false, std::memory_order_relaxed)) ended(true);
  return result;
}

template <typename Function>
void* address(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

void Handover::begin(const Library& library, StandBack before, Ended after) {
  library_ = real = &library;
  stand_back = before;
  ended = after;
  look_for_profilers();
}

void Handover::look_for_profilers() {
  if (library_ == nullptr) return;
  const Import imports[] = {
      {"cuptiActivityRegisterTimestampCallback", address(real->register_timestamp), address(another_sets_clock)},
      {"cuptiActivityRegisterCallbacks", address(real->register_callbacks), address(another_registers)},
      {"cuptiActivityDisable", address(real->disable), address(another_disables)},
      {"cuptiActivityFlushAll", address(real->flush_all), address(another_flushes)},
  };
  followed_ += imports_.follow("libcupti.so", imports, sizeof(imports) / sizeof(imports[0]));
}

}  // namespace trimtab::inject::cupti
