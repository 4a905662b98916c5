// The profiler plugin: NCCL's calls, given to the collector, the detail control and the plugin behind ours. Every call
// returns success, whatever happens: a profiler never fails a communicator.

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "abi.hpp"
#include "clock.hpp"
#include "collector.hpp"
#include "collector_status.hpp"
#include "cupti/collector.hpp"
#include "detail.hpp"
#include "next_profiler.hpp"
#include "recorder.hpp"

namespace trimtab::nccl {

namespace {

using inject::recorder;
using inject::RingNames;

constexpr std::uint32_t kFunctionNames = count_of(kFunctions);

// By function: ring generation << 32 | index of its name in that ring.
std::atomic<std::uint64_t> function_names[kFunctionNames];

std::uint32_t index_of(std::atomic<std::uint64_t>& known, const RingNames& names, const char* text,
                       std::size_t length) {
  const std::uint64_t value = known.load(std::memory_order_relaxed);
  if (value >> 32 == names.generation) return static_cast<std::uint32_t>(value);
  const std::uint32_t index = names.table->intern(text, length);
  if (index == 0) {
    recorder.session.ring().header().names_dropped.fetch_add(1, std::memory_order_relaxed);
  } else {
    known.store(std::uint64_t{names.generation} << 32 | index, std::memory_order_relaxed);
  }
  return index;
}

std::uint32_t function_index(std::uint8_t function, const RingNames& names) {
  if (function >= kFunctionNames) return 0;
  const char* const text = kFunctions[function].theirs;
  return index_of(function_names[function], names, text, std::strlen(text));
}

std::uint32_t communicator_index(std::uint64_t id, Communicator& communicator, const RingNames& names) {
  char text[16];
  for (int digit = 0; digit < 16; ++digit) text[digit] = "0123456789abcdef"[(id >> (60 - 4 * digit)) & 0xf];
  std::atomic<std::uint64_t> unknown{0};
  const bool same =
      communicator.taken.load(std::memory_order_acquire) != 0 && communicator.id.load(std::memory_order_relaxed) == id;
  return index_of(same ? communicator.ring_name : unknown, names, text, sizeof(text));
}

std::uint16_t capped(std::uint32_t value) {
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(value, 0xffff));
}

void publish_pair(const ClockPair& pair, record::ClockBound bound, std::uint32_t domain) {
  if (pair.gpu_ns == 0) return;
  inject::RecordFields fields;
  fields.kind = record::kClock;
  fields.domain = domain;
  fields.begin_ns = fields.end_ns = pair.gpu_ns;
  fields.payload = pair.difference;
  fields.flags = record::kPayloadValid;
  fields.detail[0] = bound;
  recorder.session.ring().publish(fields);
}

// Completed collectives into the process's record ring (schema/record.hpp, kCollective and kP2p). `communicator` is the
// table's entry of that index: it remembers the name's place in the ring while it is still the collective's own.
// Nothing happens when no agent is there.
void publish_to_ring(const CompletedCollective& completed, Communicator& communicator) {
  if (!recorder.session.recording()) return;
  const CollectiveFacts& facts = completed.facts;
  const RingNames names = recorder.session.names();
  inject::RecordFields fields;
  fields.kind = facts.p2p ? record::kP2p : record::kCollective;
  fields.name = function_index(facts.function, names);
  fields.domain = communicator_index(facts.communicator, communicator, names);
  fields.begin_ns = completed.begin_ns;
  fields.end_ns = completed.end_ns;
  fields.payload = facts.bytes;
  fields.thread = facts.sequence;
  fields.depth = facts.channels;
  fields.flags = static_cast<std::uint16_t>((facts.bytes > 0 ? record::kPayloadValid : 0) |
                                            (completed.fused ? record::kFused : 0));
  const std::uint16_t detail[] = {capped(facts.ranks), capped(facts.rank), capped(facts.nodes),
                                  facts.algorithm,     facts.protocol,     facts.datatype};
  std::copy(std::begin(detail), std::end(detail), fields.detail);
  const std::uint64_t now = inject::now_ns();
  ClockBounds bounds;
  // First: who reads the collective wants to know its clock.
  if (communicator.clocks.take(now, bounds)) {
    publish_pair(bounds.after, record::kReadAfter, fields.domain);
    publish_pair(bounds.before, record::kReadBefore, fields.domain);
  }
  recorder.session.ring().publish(fields);
  recorder.session.keep_connected(now);
}

void publish(const CompletedCollective& completed);

// The process's only ones; constant-initialised, never destroyed.
constinit Communicators communicators;
constinit CollectiveSlots slots;
constinit Collector collector(publish, communicators, slots);
constinit DetailControl control;
constinit NextProfiler next;
pthread_once_t started = PTHREAD_ONCE_INIT;
// NCCL introduces communicators, and takes leave of them, on several threads.
pthread_mutex_t introductions = PTHREAD_MUTEX_INITIALIZER;

void publish(const CompletedCollective& completed) {
  publish_to_ring(completed, communicators[completed.facts.communicator_index]);
}

std::uint32_t process_tag() {
  return static_cast<std::uint32_t>(spread(static_cast<std::uint64_t>(getpid())));
}

void child_begins() {
  introductions = PTHREAD_MUTEX_INITIALIZER;
  collector.serve(process_tag());
  next.serve(process_tag());
}

// On the thread of the process's collector. A mask must not be written once its NCCL may be unloaded: that is when the
// last communicator ends, under this lock.
std::uint64_t follow_level() {
  constexpr std::uint64_t kAgainNs = 100'000'000;
  if (pthread_mutex_trylock(&introductions) != 0) return kAgainNs;
  const std::uint64_t now = inject::now_ns();
  control.follow_budget(inject::collector_status.allows(record::kDetailCollectives));
  control.keep(now);
  pthread_mutex_unlock(&introductions);
  return window_change_in_ns(now);
}

// Charges the process's budget with what an event takes; one of sixteen is timed, for all.
class ChargedEvent {
 public:
  ChargedEvent() {
    static constinit std::atomic<std::uint32_t> events{0};
    if (events.fetch_add(1, std::memory_order_relaxed) % kTimed == 0)
      begin_ns_ = inject::read_clock_ns(CLOCK_MONOTONIC);
  }
  ~ChargedEvent() {
    if (begin_ns_ == 0) return;
    inject::collector_status.add_cost(kTimed * (inject::read_clock_ns(CLOCK_MONOTONIC) - begin_ns_));
  }
  ChargedEvent(const ChargedEvent&) = delete;
  ChargedEvent& operator=(const ChargedEvent&) = delete;

 private:
  static constexpr std::uint32_t kTimed = 16;
  std::uint64_t begin_ns_ = 0;
};

void start() {
  collector.serve(process_tag());
  control.allow(recorder.session.wanted());
  control.set(parse_detail(secure_getenv("TRIMTAB_NCCL_DETAIL")));
  inject::collector_status.follower.store(follow_level, std::memory_order_release);
  if (recorder.session.wanted() && control.detail() != Detail::kOff) inject::cupti::collector.serve(recorder.session);
  pthread_atfork(nullptr, nullptr, child_begins);
}

struct Introduction {
  int version;
  std::uint64_t communicator;
  const char* name;
  int nodes;
  int ranks;
  int rank;
  Logger logger;
};

void follow_next_mask() {
  if (next.loaded()) control.want_also(next.mask());
}

void introduce_to_next(const Introduction& introduction, Communicator* communicator) {
  next.load(secure_getenv("TRIMTAB_NCCL_PROFILER_NEXT"), introduction.version, process_tag(), introduction.logger);
  // A second copy of NCCL that took the other version of ours goes without: the events are not the same.
  if (!next.loaded() || next.version() != introduction.version || communicator == nullptr) return;
  void* context = nullptr;
  if (!next.init(&context, introduction.communicator, introduction.name, introduction.nodes, introduction.ranks,
                 introduction.rank, introduction.logger)) {
    return;
  }
  communicator->next_context.store(context, std::memory_order_relaxed);
  communicator->forwarded.store(true, std::memory_order_release);
  follow_next_mask();
}

Result init(void** context, int* mask, const Introduction& introduction) {
  pthread_once(&started, start);
  pthread_mutex_lock(&introductions);
  Communicator* communicator = communicators.add(introduction.communicator, introduction.nodes, introduction.ranks,
                                                 introduction.rank, introduction.logger);
  introduce_to_next(introduction, communicator);
  control.adopt(mask);
  pthread_mutex_unlock(&introductions);
  *context = communicator;
  return kSuccess;
}

Result start_event(void* context, void** handle, const EventDescriptor& descriptor, std::uint64_t type,
                   std::size_t bytes) {
  const ChargedEvent charged;
  if (type == kCollectiveEvent || type == kP2pEvent) inject::cupti::collector.launched();
  const Communicator* communicator = communicators.find(context);
  const bool recorded = recorder.session.recording();
  const std::uint64_t now = recorded ? inject::read_clock_ns(CLOCK_MONOTONIC_COARSE) : 0;
  const std::uint64_t host = recorded ? inject::now_ns() : 0;
  if (!next.loaded()) {
    *handle = reinterpret_cast<void*>(recorded ? collector.start(communicator, type, descriptor, now, host) : 0);
    return kSuccess;
  }
  EventDescriptor ours{};
  __builtin_memcpy(&ours, &descriptor, bytes);
  ours.parent = reinterpret_cast<void*>(next.find(reinterpret_cast<std::uint64_t>(descriptor.parent)).ours);
  const std::uint64_t bits = recorded ? collector.start(communicator, type, ours, now, host) : 0;
  const bool forward = communicator != nullptr && communicator->forwarded.load(std::memory_order_acquire);
  void* const next_context = forward ? communicator->next_context.load(std::memory_order_relaxed) : nullptr;
  *handle = reinterpret_cast<void*>(next.start(next_context, type, descriptor, bytes, bits, forward));
  follow_next_mask();
  return kSuccess;
}

Result stop_event(void* handle) {
  const ChargedEvent charged;
  const auto bits = reinterpret_cast<std::uint64_t>(handle);
  if (!next.loaded()) {
    collector.stop(bits);
    return kSuccess;
  }
  const EventPair pair = next.find(bits);
  collector.stop(pair.ours);
  next.stop(pair);
  return kSuccess;
}

Result record_event_state(void* handle, int state, StateArguments* arguments) {
  const ChargedEvent charged;
  const auto bits = reinterpret_cast<std::uint64_t>(handle);
  const std::uint64_t host = state == kKernelChannelStop ? inject::now_ns() : 0;
  if (!next.loaded()) {
    collector.record(bits, state, arguments, host);
    return kSuccess;
  }
  const EventPair pair = next.find(bits);
  collector.record(pair.ours, state, arguments, host);
  next.record(pair, state, arguments);
  return kSuccess;
}

unsigned long long value(const std::atomic<std::uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

void report(Logger logger) {
  const CollectorCounters& seen = collector.counters();
  if (logger == nullptr) return;
  logger(kLogInfo, kLogProfile, __FILE__, __LINE__,
         "trimtab: this process's collectives so far: %llu timed, %llu without a free slot, %llu unfinished, %llu with "
         "unsound stamps, %llu without channels; %llu late events",
         value(seen.completed), value(seen.dropped), value(seen.unfinished), value(seen.unsound), value(seen.untimed),
         value(seen.late));
}

Result finalize(void* context) {
  Communicator* communicator = communicators.find(context);
  if (communicator == nullptr) return kSuccess;
  pthread_mutex_lock(&introductions);
  report(communicator->logger.load(std::memory_order_relaxed));
  if (communicator->forwarded.exchange(false)) {
    next.finalize(communicator->next_context.load(std::memory_order_relaxed));
  }
  communicators.remove(*communicator);
  if (communicators.empty()) control.forget();
  pthread_mutex_unlock(&introductions);
  return kSuccess;
}

Result init_v4(void** context, int* mask, const char* name, std::uint64_t communicator, int nodes, int ranks, int rank,
               Logger logger) {
  return init(context, mask, {4, communicator, name, nodes, ranks, rank, logger});
}

Result init_v5(void** context, std::uint64_t communicator, int* mask, const char* name, int nodes, int ranks, int rank,
               Logger logger) {
  return init(context, mask, {5, communicator, name, nodes, ranks, rank, logger});
}

Result start_event_v4(void* context, void** handle, EventDescriptor* descriptor) {
  return start_event(context, handle, *descriptor, descriptor->type & 0xff, kDescriptorBytesV4);
}

Result start_event_v5(void* context, void** handle, EventDescriptor* descriptor) {
  return start_event(context, handle, *descriptor, descriptor->type, kDescriptorBytesV5);
}

}  // namespace

}  // namespace trimtab::nccl

// What NCCL looks for by name.
extern "C" {
extern const trimtab::nccl::ProfilerV4 ncclProfiler_v4 __attribute__((visibility("default")));
extern const trimtab::nccl::ProfilerV5 ncclProfiler_v5 __attribute__((visibility("default")));
}

const trimtab::nccl::ProfilerV4 ncclProfiler_v4{"Trimtab",
                                                trimtab::nccl::init_v4,
                                                trimtab::nccl::start_event_v4,
                                                trimtab::nccl::stop_event,
                                                trimtab::nccl::record_event_state,
                                                trimtab::nccl::finalize};
const trimtab::nccl::ProfilerV5 ncclProfiler_v5{"Trimtab",
                                                trimtab::nccl::init_v5,
                                                trimtab::nccl::start_event_v5,
                                                trimtab::nccl::stop_event,
                                                trimtab::nccl::record_event_state,
                                                trimtab::nccl::finalize};
