#include "thread_state.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>

namespace trimtab::inject {

namespace {

constexpr std::uint64_t kFree = 0;
constexpr std::uint64_t kBusy = ~std::uint64_t{0};
constexpr std::uint32_t kProbes = 64;

ThreadState* map_state() {
  void* memory = mmap(nullptr, sizeof(ThreadState), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) ThreadState;
}

void clear_ranges(ThreadState& state) {
  state.depth.store(0, std::memory_order_release);
  state.overflowing = 0;
  for (Overflow& overflow : state.overflow) overflow = {};
}

}  // namespace

bool enter_overflow(ThreadState& state, std::uint32_t domain) {
  for (Overflow& overflow : state.overflow) {
    if (overflow.count != 0 && overflow.domain != domain) continue;
    overflow.domain = domain;
    ++overflow.count;
    ++state.overflowing;
    return true;
  }
  return false;
}

bool leave_overflow(ThreadState& state, std::uint32_t domain) {
  if (state.overflowing == 0) return false;
  for (Overflow& overflow : state.overflow) {
    if (overflow.count == 0 || overflow.domain != domain) continue;
    --overflow.count;
    --state.overflowing;
    return true;
  }
  return false;
}

ClosedRange snapshot(const OpenRange& range) {
  return {range.begin_ns.load(std::memory_order_relaxed), range.payload.load(std::memory_order_relaxed),
          range.name.load(std::memory_order_relaxed),     range.domain.load(std::memory_order_relaxed),
          range.flags.load(std::memory_order_relaxed),    range.id.load(std::memory_order_relaxed)};
}

void store(OpenRange& range, const ClosedRange& values) {
  range.begin_ns.store(values.begin_ns, std::memory_order_relaxed);
  range.payload.store(values.payload, std::memory_order_relaxed);
  range.name.store(values.name, std::memory_order_relaxed);
  range.domain.store(values.domain, std::memory_order_relaxed);
  range.flags.store(values.flags, std::memory_order_relaxed);
  range.id.store(values.id, std::memory_order_relaxed);
}

int remove_innermost(ThreadState& state, std::uint32_t domain, ClosedRange& range) {
  const std::uint32_t depth = state.depth.load(std::memory_order_relaxed);
  for (std::uint32_t i = depth; i-- > 0;) {
    if (state.open[i].domain.load(std::memory_order_relaxed) != domain) continue;
    range = snapshot(state.open[i]);
    for (std::uint32_t above = i + 1; above < depth; ++above) store(state.open[above - 1], snapshot(state.open[above]));
    state.depth.store(depth - 1, std::memory_order_release);
    return static_cast<int>(i);
  }
  return -1;
}

bool ThreadStates::start(void (*on_exit)(void*)) {
  return pthread_key_create(&key_, on_exit) == 0;
}

ThreadState* ThreadStates::current() {
  auto* state = static_cast<ThreadState*>(pthread_getspecific(key_));
  if (state != nullptr) [[likely]]
    return state;
  state = take();
  if (state == nullptr) return nullptr;
  if (pthread_setspecific(key_, state) != 0) {
    release(*state);
    return nullptr;
  }
  state->thread = static_cast<std::uint32_t>(syscall(SYS_gettid));
  return state;
}

ThreadState* ThreadStates::take() {
  for (auto& slot : states_) {
    ThreadState* state = slot.load(std::memory_order_acquire);
    if (state == nullptr) {
      ThreadState* fresh = map_state();
      if (fresh == nullptr) return nullptr;
      fresh->taken.store(true, std::memory_order_relaxed);
      if (slot.compare_exchange_strong(state, fresh, std::memory_order_acq_rel)) return fresh;
      munmap(fresh, sizeof(ThreadState));
    }
    bool taken = false;
    if (state->taken.compare_exchange_strong(taken, true, std::memory_order_acq_rel)) return state;
  }
  return nullptr;
}

void ThreadStates::release(ThreadState& state) {
  clear_ranges(state);
  state.taken.store(false, std::memory_order_release);
}

void ThreadStates::reset_after_fork() {
  auto* own = static_cast<ThreadState*>(pthread_getspecific(key_));
  for (auto& slot : states_) {
    ThreadState* state = slot.load(std::memory_order_relaxed);
    if (state == nullptr) continue;
    clear_ranges(*state);
    state->taken.store(state == own, std::memory_order_relaxed);
  }
  if (own != nullptr) own->thread = static_cast<std::uint32_t>(syscall(SYS_gettid));
}

std::uint64_t OpenTable::start(const ClosedRange& range, std::uint32_t thread) {
  const std::uint64_t serial = serial_.fetch_add(1, std::memory_order_relaxed);
  for (std::uint32_t probe = 0; probe < kProbes; ++probe) {
    const std::uint64_t index = (serial + probe) & (kMaxStarted - 1);
    StartedRange& slot = slots_[index];
    std::uint64_t free = kFree;
    if (!slot.id.compare_exchange_strong(free, kBusy, std::memory_order_acquire)) continue;
    store(slot.range, range);
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
