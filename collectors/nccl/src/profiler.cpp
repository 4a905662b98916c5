#include "profiler.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cstdlib>

#include "clock.hpp"
#include "collector_status.hpp"
#include "cupti/collector.hpp"
#include "detail.hpp"
#include "next_profiler.hpp"
#include "recorder.hpp"
#include "ring_publication.hpp"

namespace trimtab::nccl {

namespace {

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
  control.allow(inject::recorder.session.wanted());
  control.set(parse_detail(secure_getenv("TRIMTAB_NCCL_DETAIL")));
  inject::collector_status.follower.store(follow_level, std::memory_order_release);
  if (inject::recorder.session.wanted() && control.detail() != Detail::kOff)
    inject::cupti::collector.serve(inject::recorder.session);
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
  const bool recorded = inject::recorder.session.recording();
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

const CollectorCounters& collector_counters() {
  return collector.counters();
}

}  // namespace trimtab::nccl

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
