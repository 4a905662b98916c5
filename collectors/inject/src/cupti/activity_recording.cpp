#include "activity_recording.hpp"

#include <pthread.h>
#include <unistd.h>

#include "clock.hpp"
#include "collector_status.hpp"
#include "handover.hpp"

namespace trimtab::inject::cupti {

namespace {

constexpr std::uint32_t kNeeded[] = {kKindConcurrentKernel, kKindMemcpy, kKindMemcpy2, kKindMemset};

// CUPTI's callbacks carry no pointer of ours.
std::atomic<ActivityRecording*> active{nullptr};

bool finished(const Activity& activity) {
  switch (activity.kind) {
    case kKindConcurrentKernel:
      return reinterpret_cast<const KernelActivity&>(activity).end != 0;
    case kKindMemcpy:
    case kKindMemcpy2:
      return reinterpret_cast<const MemcpyActivity&>(activity).end != 0;
    case kKindMemset:
      return reinterpret_cast<const MemsetActivity&>(activity).end != 0;
    case kKindGraphTrace:
      return reinterpret_cast<const GraphActivity&>(activity).end != 0;
    default:
      return true;
  }
}

// Switching kinds may wait for the device, and the job with it: charges the wall time, less the CPU time of a thread
// that accounts for that itself.
class SwitchingCost {
 public:
  explicit SwitchingCost(unsigned long accounting_thread)
      : accounted_(pthread_self() == accounting_thread), begin_ns_(elapsed_ns()) {}
  ~SwitchingCost() {
    const std::uint64_t end_ns = elapsed_ns();
    if (end_ns > begin_ns_) collector_status.add_cost(end_ns - begin_ns_);
  }
  SwitchingCost(const SwitchingCost&) = delete;
  SwitchingCost& operator=(const SwitchingCost&) = delete;

 private:
  [[nodiscard]] std::uint64_t elapsed_ns() const {
    return read_clock_ns(CLOCK_MONOTONIC) - (accounted_ ? read_clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0);
  }
  bool accounted_;
  std::uint64_t begin_ns_;
};

}  // namespace

std::uint32_t RangeIds::push_next() {
  constexpr std::uint32_t kTimedEvery = 64;  // a power of two
  const std::uint32_t id = last_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (id == 0) return push_next();  // wrapped around: 0 says that there is none
  if (id % kTimedEvery != 0) {
    return library_->push_external_id(kExternalCustom2, id) == kSuccess ? id : 0;
  }
  // A sample of the pairs pays for all: two clock reads would cost as much as the call.
  const std::uint64_t begin = read_clock_ns(CLOCK_MONOTONIC);
  const Result result = library_->push_external_id(kExternalCustom2, id);
  collector_status.add_cost(2 * kTimedEvery * (read_clock_ns(CLOCK_MONOTONIC) - begin));
  return result == kSuccess ? id : 0;
}

void RangeIds::pop() {
  std::uint64_t last = 0;
  library_->pop_external_id(kExternalCustom2, &last);
}

void RangeIds::push_again(std::uint32_t id) {
  library_->push_external_id(kExternalCustom2, id);
}

CuptiState ActivityRecording::open(const CuptiSettings& settings, Session& session) {
  CuptiState state = load_library(settings.library, library_);
  if (!state.running()) return state;
  if (!buffers_.allocate(settings.buffers, settings.buffer_bytes)) return {record::kCuptiNoMemory};
  session_ = &session;
  pid_ = getpid();
  kernel_cost_ns_ = settings.kernel_cost_ns;
  graph_cost_ns_ = settings.graph_cost_ns;
  graph_nodes_ = settings.graph_nodes;
  decoder_ = ActivityDecoder(library_, names_);
  active.store(this, std::memory_order_release);
  return state;
}

CuptiState ActivityRecording::begin() {
  buffers_.begin_era();
  if (begun_) handover::displaced_others();
  // Another profiler may have set a clock of its own, and none can be unset: torch.profiler's counts ticks.
  if (begun_ && library_.register_timestamp != nullptr) library_.register_timestamp(now_ns);
  begun_ = true;
  const CuptiState state = state_of(kCallRegisterCallbacks, library_.register_callbacks(requested, completed));
  if (!state.running()) return state;
  switch_optional(kKindOverhead, true, no_overhead_);
  return resume();
}

void ActivityRecording::give_up_graphs() {
  if (!graph_nodes_ && !no_graphs_) library_.disable(kKindGraphTrace);
}

CuptiState ActivityRecording::resume() {
  const SwitchingCost cost(accounting_thread_.load(std::memory_order_relaxed));
  if (!graph_nodes_) switch_optional(kKindGraphTrace, true, no_graphs_);
  switch_launches(true);
  const CuptiState state = switch_needed(true);
  kinds_told_ = state.running() && kernels_told();
  if (!state.running()) pause();
  return state;
}

CuptiState ActivityRecording::pause() {
  const SwitchingCost cost(accounting_thread_.load(std::memory_order_relaxed));
  const CuptiState state = switch_needed(false);
  switch_launches(false);
  if (!graph_nodes_) switch_optional(kKindGraphTrace, false, no_graphs_);
  return state;
}

void ActivityRecording::hand_over() {
  (void)pause();
  switch_optional(kKindOverhead, false, no_overhead_);
  fetch_lent();
}

void ActivityRecording::fetch_lent() {
  if (buffers_.lent() != 0) (void)flush(true);
}

CuptiState ActivityRecording::switch_needed(bool on) {
  for (const std::uint32_t kind : kNeeded) {
    const CuptiState state = on ? state_of(kCallEnable, library_.enable(kind))  //
                                : state_of(kCallDisable, library_.disable(kind));
    if (!state.running()) return state;
  }
  return {record::kCuptiRunning};
}

void ActivityRecording::switch_optional(std::uint32_t kind, bool on, bool& refused) {
  if (refused) return;
  refused = (on ? library_.enable(kind) : library_.disable(kind)) != kSuccess;
}

// The launching calls alone: the whole of RUNTIME and DRIVER would record every call of the program.
void ActivityRecording::switch_launches(bool on) {
  if (!correlates()) return;
  const std::uint8_t enable = on ? 1 : 0;
  for (const std::uint32_t call : kRuntimeLaunches) library_.switch_runtime_api(call, enable);
  for (const std::uint32_t call : kDriverLaunches) library_.switch_driver_api(call, enable);
  for (const std::uint32_t call : kRuntimeWaits) library_.switch_runtime_api(call, enable);
  for (const std::uint32_t call : kDriverWaits) library_.switch_driver_api(call, enable);
  if (library_.version >= kVersion13_0) {
    for (const std::uint32_t call : kRuntimeLaunches13) library_.switch_runtime_api(call, enable);
  }
  switch_optional(kKindExternalCorrelation, on, no_correlation_);
}

CuptiState ActivityRecording::flush(bool forced) {
  const CuptiState state = state_of(kCallFlushAll, library_.flush_all(forced ? kFlushForced : 0));
  if (!state.running()) return state;
  std::size_t dropped = 0;
  const Result result = library_.get_dropped(nullptr, 0, &dropped);
  if (result == kSuccess) collector_status.cupti_dropped.fetch_add(dropped, std::memory_order_relaxed);
  return state_of(kCallGetNumDroppedRecords, result);
}

void ActivityRecording::requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
  *max_records = 0;  // as many as fit
  active.load(std::memory_order_acquire)->lend(buffer, bytes);
}

void ActivityRecording::completed(void* /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer,
                                  std::size_t /*bytes*/, std::size_t valid_bytes) {
  active.load(std::memory_order_acquire)->take(buffer, valid_bytes);
}

void ActivityRecording::lend(std::uint8_t** buffer, std::size_t* bytes) {
  const std::uint64_t begin = read_clock_ns(CLOCK_MONOTONIC);
  counts_.requested.fetch_add(1, std::memory_order_relaxed);
  *buffer = buffers_.lend();
  *bytes = *buffer == nullptr ? 0 : buffers_.bytes();
  if (*buffer == nullptr && library_.version < kVersion12_9) {
    *buffer = buffers_.lend_scratch();
    *bytes = ActivityBuffers::kScratchBytes;
  }
  collector_status.add_cost(read_clock_ns(CLOCK_MONOTONIC) - begin);
}

void ActivityRecording::take(std::uint8_t* buffer, std::size_t valid_bytes) {
  if (buffer == nullptr || getpid() != pid_) return;
  const auto origin = buffers_.take_back(buffer);
  if (origin == ActivityBuffers::Origin::kStale) return;
  // Another's, who waits for it: its records may have another's clock.
  if (origin == ActivityBuffers::Origin::kForeign) return decode(buffer, valid_bytes, false);
  if (origin == ActivityBuffers::Origin::kPool) {
    decode(buffer, valid_bytes, true);
  } else {
    collector_status.cupti_dropped.fetch_add(count_records(buffer, valid_bytes), std::memory_order_relaxed);
  }
  buffers_.recycle(buffer, valid_bytes);
}

void ActivityRecording::decode(std::uint8_t* buffer, std::size_t valid_bytes, bool ours) {
  const bool counted = pthread_self() == accounting_thread_.load(std::memory_order_relaxed);
  const std::uint64_t begin = counted ? 0 : read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  DecodeTarget target;
  if (ours && session_->connected()) target = {&session_->ring(), session_->names()};
  const Decoded decoded = decoder_.decode(buffer, valid_bytes, target);
  counts_.kernels.fetch_add(decoded.kernels, std::memory_order_relaxed);
  counts_.foreign.fetch_add(decoded.foreign, std::memory_order_relaxed);
  collector_status.lost_stamps.fetch_add(decoded.lost_stamps, std::memory_order_relaxed);
  if (decoded.malformed) collector_status.cupti_dropped.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t base_ns = (decoded.kernels - decoded.graphs) * kernel_cost_ns_ + decoded.graphs * graph_cost_ns_;
  counts_.base_cost_ns.fetch_add(base_ns, std::memory_order_relaxed);
  collector_status.add_cost(decoded.overhead_ns + base_ns * cost_permille_.load() / 1000 +
                            (counted ? 0 : read_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin));
}

std::uint64_t ActivityRecording::count_records(std::uint8_t* buffer, std::size_t valid_bytes) const {
  std::uint64_t count = 0;
  Activity* activity = nullptr;
  while (count < ActivityBuffers::kScratchBytes &&
         library_.get_next_record(buffer, valid_bytes, &activity) == kSuccess) {
    ++count;
  }
  return count;
}

bool ActivityRecording::holds_finished_records(std::uint8_t* buffer) const {
  if (reinterpret_cast<const volatile Activity*>(buffer)->kind == 0) return false;
  Activity* activity = nullptr;
  const std::size_t most = buffers_.bytes() / sizeof(ExternalCorrelationActivity);
  for (std::size_t i = 0; i < most; ++i) {
    if (library_.get_next_record(buffer, buffers_.bytes(), &activity) != kSuccess || activity->kind == 0) return i != 0;
    if (!finished(*activity)) return false;
  }
  return true;
}

bool ActivityRecording::stranded() const {
  bool found = false;
  buffers_.for_each_lent(ActivityBuffers::Era::kPresent,
                         [&](std::uint8_t* buffer) { found = found || holds_finished_records(buffer); });
  return found;
}

void ActivityRecording::suspect_lost() {
  for (bool& suspected : suspected_) suspected = false;
  buffers_.for_each_lent(ActivityBuffers::Era::kPast, [&](std::uint8_t* buffer) {
    suspected_[buffers_.index_of(buffer)] = holds_finished_records(buffer);
  });
}

void ActivityRecording::reclaim_lost() {
  buffers_.for_each_lent(ActivityBuffers::Era::kPast, [&](std::uint8_t* buffer) {
    if (!suspected_[buffers_.index_of(buffer)] || !holds_finished_records(buffer)) return;
    if (buffers_.take_back(buffer) == ActivityBuffers::Origin::kPool) buffers_.recycle(buffer, buffers_.bytes());
  });
}

bool ActivityRecording::kinds_gone() const {
  return kinds_told_ && !kernels_told();
}

bool ActivityRecording::kernels_told() const {
  if (library_.get_enabled_kinds == nullptr) return false;
  std::uint32_t kinds[256] = {};
  std::uint32_t capacity = 256;
  std::uint32_t count = 0;
  if (library_.get_enabled_kinds(nullptr, kinds, &capacity, &count) != kSuccess || count > 64) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (kinds[i] == kKindConcurrentKernel) return true;
  }
  return false;
}

}  // namespace trimtab::inject::cupti
