#include "recorder.hpp"

#include <pthread.h>

#include <cstring>

#include "cupti/collector.hpp"

namespace trimtab::inject {

namespace {

std::uint32_t flags_of(const Event& event) {
  return event.has_payload ? std::uint32_t{record::kPayloadValid} : 0U;
}

// Ids lie on CUPTI's stack of this thread in the order of the ranges: those of ranges above the one that has ended are
// taken off and put back. `at`: where it was.
void take_off_id(const ThreadState& state, std::uint32_t at) {
  cupti::RangeIds& ids = cupti::collector.range_ids;
  const std::uint32_t depth = state.depth.load(std::memory_order_relaxed);
  const auto id_of = [&](std::uint32_t i) { return state.open[i].id.load(std::memory_order_relaxed); };
  for (std::uint32_t i = at; i < depth; ++i) {
    if (id_of(i) != 0) ids.pop();
  }
  ids.pop();
  for (std::uint32_t i = at; i < depth; ++i) {
    if (id_of(i) != 0) ids.push_again(id_of(i));
  }
}

// Addresses of string literals differ in their middle bits.
std::uint32_t cache_slot(const char* text) {
  const auto address = reinterpret_cast<std::uintptr_t>(text);
  return static_cast<std::uint32_t>((address * 0x9e3779b97f4a7c15ULL) >> 56) % kCachedNames;
}

void thread_ends(void* state) {
  recorder.abandon(*static_cast<ThreadState*>(state));
}

void child_begins() {
  recorder.restart_after_fork();
}

// Runs when the process exits, after its own exit handlers: a range that they close is still complete.
__attribute__((destructor)) void process_ends() {
  recorder.finish();
}

}  // namespace

constinit HandleMemory<kMaxDomains> domain_memory{};
constinit HandleMemory<kMaxStrings> string_memory{};
constinit Recorder recorder;

bool watch_process() {
  return recorder.threads.start(thread_ends) && pthread_atfork(nullptr, nullptr, child_begins) == 0;
}

ThreadState* Recorder::recording_thread() {
  if (!wants()) return nullptr;
  ThreadState* state = threads.current();
  if (state == nullptr) {
    session.count_untracked();
    return nullptr;
  }
  const std::uint32_t era = range_gate.era();
  if (state->era != era) [[unlikely]]
    forget_open(*state, era);
  return state;
}

void Recorder::forget_open(ThreadState& state, std::uint32_t era) {
  const std::uint32_t depth = state.depth.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < depth; ++i) {
    if (state.open[i].id.load(std::memory_order_relaxed) != 0) cupti::collector.range_ids.pop();
  }
  state.depth.store(0, std::memory_order_release);
  for (Overflow& overflow : state.overflow) overflow = {};
  state.overflowing = 0;
  state.ranges = 0;
  state.era = era;
}

void Recorder::count_range(ThreadState& state, std::uint64_t now_ns) {
  if (state.ranges++ == 0) state.burst_ns = now_ns;
  if (state.ranges < RangeGate::kBurst) [[likely]]
    return;
  state.ranges = 0;
  range_gate.burst_ended(session, state.burst_ns, now_ns);
}

std::uint64_t Recorder::begin_now() {
  const std::uint64_t now = now_ns();
  return session.keep_connected(now) ? now_ns() : now;
}

std::uint32_t Recorder::name_of(ThreadState& state, const Event& event) {
  const RingNames names = session.names();
  std::uint32_t index = 0;
  if (event.registered != 0) {
    index = strings.ring_index(event.registered, names);
  } else if (event.text == nullptr) {
    return 0;
  } else {
    CachedName& cached = state.names[cache_slot(event.text)];
    // The address alone proves nothing: buffers are reused with other text.
    if (cached.text == event.text && cached.generation == names.generation &&
        names.table->matches(cached.index, event.text)) {
      return cached.index;
    }
    index = names.table->intern(event.text, strnlen(event.text, record::kNameBytes + 1));
    if (index != 0 && !event.volatile_text) cached = {event.text, index, names.generation};
  }
  if (index == 0) session.ring().header().names_dropped.fetch_add(1, std::memory_order_relaxed);
  return index;
}

int Recorder::push(std::uint32_t domain, const Event& event) {
  ThreadState* state = recording_thread();
  if (state == nullptr) return kNotTracked;
  const std::uint32_t depth = state->depth.load(std::memory_order_relaxed);
  if (depth == kMaxDepth) {
    enter_overflow(*state, domain);
    session.count_untracked();
    return kNotTracked;
  }
  ClosedRange range{0, event.payload, name_of(*state, event), domain, flags_of(event)};
  range.id = cupti::collector.range_ids.push();
  range.begin_ns = begin_now();
  store(state->open[depth], range);
  state->depth.store(depth + 1, std::memory_order_release);
  count_range(*state, range.begin_ns);
  return static_cast<int>(depth);
}

int Recorder::pop(std::uint32_t domain) {
  if (!wants()) return kNotTracked;
  const std::uint64_t end_ns = now_ns();
  ThreadState* state = recording_thread();
  ClosedRange range;
  if (state == nullptr || leave_overflow(*state, domain)) return kNotTracked;
  const int depth = remove_innermost(*state, domain, range);
  if (depth < 0) return kNotTracked;
  if (range.id != 0) take_off_id(*state, static_cast<std::uint32_t>(depth));
  publish_closed(range, end_ns, state->thread, 0, static_cast<std::uint32_t>(depth));
  return depth;
}

std::uint64_t Recorder::start(std::uint32_t domain, const Event& event) {
  ThreadState* state = recording_thread();
  if (state == nullptr) return 0;
  const std::uint32_t flags = flags_of(event) | record::kCrossThread;
  ClosedRange range{0, event.payload, name_of(*state, event), domain, flags};
  range.begin_ns = begin_now();
  const std::uint64_t id = started.start(range, state->thread);
  if (id == 0) session.count_untracked();
  count_range(*state, range.begin_ns);
  return id;
}

void Recorder::end(std::uint64_t id) {
  if (!session.recording()) return;  // also while the gate is shut: the id was given before
  const std::uint64_t end_ns = now_ns();
  ClosedRange range;
  std::uint32_t thread = 0;
  if (started.end(id, range, thread)) publish_closed(range, end_ns, thread, 0, 0);
}

void Recorder::mark(std::uint32_t domain, const Event& event) {
  ThreadState* state = recording_thread();
  if (state == nullptr) return;
  RecordFields fields;
  fields.kind = record::kMark;
  fields.name = name_of(*state, event);
  fields.domain = domains.ring_index(domain, session.names());
  fields.payload = event.payload;
  fields.flags = static_cast<std::uint16_t>(flags_of(event));
  fields.thread = state->thread;
  fields.depth = static_cast<std::uint16_t>(state->depth.load(std::memory_order_relaxed));
  fields.begin_ns = fields.end_ns = now_ns();
  session.ring().publish(fields);
  session.keep_connected(fields.begin_ns);
  count_range(*state, fields.begin_ns);
}

void Recorder::name_thread(std::uint32_t thread, const char* name) {
  ThreadState* state = recording_thread();
  if (state == nullptr) return;
  RecordFields fields;
  fields.kind = record::kThreadName;
  fields.name = name_of(*state, {.text = name, .volatile_text = true});
  fields.thread = thread;
  fields.begin_ns = fields.end_ns = now_ns();
  session.ring().publish(fields);
}

void Recorder::publish_closed(const ClosedRange& range, std::uint64_t end_ns, std::uint32_t thread, std::uint32_t flags,
                              std::uint32_t depth) {
  RecordFields fields;
  fields.begin_ns = range.begin_ns;
  fields.end_ns = end_ns;
  fields.payload = range.payload;
  fields.name = range.name;
  fields.domain = domains.ring_index(range.domain, session.names());
  fields.thread = thread;
  fields.flags = static_cast<std::uint16_t>(range.flags | flags);
  fields.depth = static_cast<std::uint16_t>(depth);
  fields.detail[0] = static_cast<std::uint16_t>(range.id);
  fields.detail[1] = static_cast<std::uint16_t>(range.id >> 16);
  session.ring().publish(fields);
  if (cupti::collector.counts_steps() && is_step(range.name)) cupti::collector.step_ended();
}

bool Recorder::is_step(std::uint32_t name) {
  std::uint32_t handle = step_.load(std::memory_order_relaxed);
  if (handle == 0) {
    handle = strings.create("step", 4);
    step_.store(handle, std::memory_order_relaxed);
  }
  return name != 0 && name == strings.ring_index(handle, session.names());
}

void Recorder::publish_open(const ThreadState& state, std::uint64_t end_ns) {
  const std::uint32_t depth = state.depth.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < depth && i < kMaxDepth; ++i) {
    publish_closed(snapshot(state.open[i]), end_ns, state.thread, record::kUnterminated, i);
  }
}

void Recorder::abandon(ThreadState& state) {
  if (session.connected()) publish_open(state, now_ns());
  ThreadStates::release(state);
}

void Recorder::finish() {
  if (session.connected()) {
    session.stop_recording();  // threads that still run find the gate shut
    const std::uint64_t end_ns = now_ns();
    threads.for_each([&](const ThreadState& state) { publish_open(state, end_ns); });
    started.drain([&](const ClosedRange& range, std::uint32_t thread) {
      publish_closed(range, end_ns, thread, record::kUnterminated, 0);
    });
  }
  session.close();
}

void Recorder::restart_after_fork() {
  cupti::collector.restart_after_fork();
  range_gate.restart_after_fork();
  session.restart_after_fork();
  threads.reset_after_fork();
  started.clear();
}

}  // namespace trimtab::inject
