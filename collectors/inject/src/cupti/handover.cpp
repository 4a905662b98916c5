#include "handover.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "imports.hpp"

namespace trimtab::inject::cupti::handover {

namespace {

// The calls are the process's, whoever makes them.
constinit Imports imports;
const Library* real = nullptr;
StandBack stand_back = nullptr;
Ended ended = nullptr;

// What others have told CUPTI.
std::atomic<std::uint64_t> kinds{0};  // a bit each, of those that they have on
std::atomic<BufferRequested> their_requested{nullptr};
std::atomic<BufferCompleted> their_completed{nullptr};
std::atomic<Timestamp> their_clock{nullptr};
std::atomic<bool> displaced{false};  // by ours since
std::atomic<bool> stopped{false};    // and have not fetched

constexpr std::uint64_t bit_of(std::uint32_t kind) {
  return kind < 64 ? std::uint64_t{1} << kind : 0;
}

Result another_sets_clock(Timestamp clock) {
  stand_back(kinds.load(std::memory_order_relaxed) != 0, false);
  their_clock.store(clock, std::memory_order_relaxed);
  return real->register_timestamp(clock);
}

Result another_registers(BufferRequested requested, BufferCompleted completed) {
  stand_back(kinds.load(std::memory_order_relaxed) != 0, true);
  their_requested.store(requested, std::memory_order_relaxed);
  their_completed.store(completed, std::memory_order_relaxed);
  displaced.store(false, std::memory_order_relaxed);
  return real->register_callbacks(requested, completed);
}

void give_callbacks_back() {
  const BufferRequested requested = their_requested.load(std::memory_order_relaxed);
  if (requested == nullptr || !displaced.exchange(false, std::memory_order_relaxed)) return;
  const Timestamp clock = their_clock.load(std::memory_order_relaxed);
  if (clock != nullptr && real->register_timestamp != nullptr) real->register_timestamp(clock);
  real->register_callbacks(requested, their_completed.load(std::memory_order_relaxed));
}

Result another_enables(std::uint32_t kind) {
  stand_back(true, false);
  give_callbacks_back();
  const Result result = real->enable(kind);
  if (result == kSuccess) {
    kinds.fetch_or(bit_of(kind), std::memory_order_relaxed);
    stopped.store(false, std::memory_order_relaxed);
  }
  if (kinds.load(std::memory_order_relaxed) == 0) ended(false);
  return result;
}

// Ours may be off now, too, if we had it.
void nothing_is_on() {
  stopped.store(true, std::memory_order_relaxed);
  ended(false);
}

Result another_disables(std::uint32_t kind) {
  const Result result = real->disable(kind);
  const std::uint64_t bit = bit_of(kind);
  if ((kinds.fetch_and(~bit, std::memory_order_relaxed) & ~bit) == 0) nothing_is_on();
  return result;
}

// kineto finalizes CUPTI at some later call where it is asked to: until then it is not to be used.
bool will_finalize() {
  const char* text = getenv("TEARDOWN_CUPTI");
  return text != nullptr && strcmp(text, "1") == 0;
}

Result another_flushes(std::uint32_t flags) {
  const Result result = real->flush_all(flags);
  const bool nothing_on = kinds.load(std::memory_order_relaxed) == 0;
  if ((flags & kFlushForced) != 0 && nothing_on && stopped.exchange(false, std::memory_order_relaxed)) {
    ended(!will_finalize());
  }
  return result;
}

Result another_finalizes() {
  stand_back(false, false);
  const Result result = real->finalize();
  kinds.store(0, std::memory_order_relaxed);
  nothing_is_on();
  return result;
}

template <typename Function>
void* address(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

void begin(const Library& library, StandBack before, Ended after) {
  real = &library;
  stand_back = before;
  ended = after;
  look_for_profilers();
}

void look_for_profilers() {
  if (real == nullptr) return;
  const Import calls[] = {
      {"cuptiActivityRegisterTimestampCallback", address(real->register_timestamp), address(another_sets_clock)},
      {"cuptiActivityRegisterCallbacks", address(real->register_callbacks), address(another_registers)},
      {"cuptiActivityEnable", address(real->enable), address(another_enables)},
      {"cuptiActivityDisable", address(real->disable), address(another_disables)},
      {"cuptiActivityFlushAll", address(real->flush_all), address(another_flushes)},
      {"cuptiFinalize", address(real->finalize), address(another_finalizes)},
  };
  imports.follow("libcupti.so", calls, sizeof(calls) / sizeof(calls[0]));
}

void displaced_others() {
  displaced.store(true, std::memory_order_relaxed);
}

}  // namespace trimtab::inject::cupti::handover
