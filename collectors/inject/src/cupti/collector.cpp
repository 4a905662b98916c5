#include "collector.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "clock.hpp"
#include "collector_status.hpp"
#include "handover.hpp"
#include "own_thread.hpp"

namespace trimtab::inject::cupti {

namespace {

constexpr std::uint64_t kExitPatienceNs = 2 * kSecondNs;
constexpr std::uint64_t kLongestFullDetailNs = 600 * kSecondNs;
constexpr const char* kForeignProfiler = "foreign_profiler";
constexpr const char* kNoAgent = "no_agent";
constexpr const char* kBudget = "budget";
constexpr const char* kSampling = "sampling";
constexpr const char* kFailed = "cupti_failed";
constexpr std::uint64_t kNamingPeriodNs = 10 * kSecondNs;
constexpr std::uint64_t kHandoverPatienceNs = 2 * kSecondNs;
constexpr int kMaxFailures = 3;        // flushes in a row
constexpr int kFlushesToReclaim = 20;  // after another profiler

std::uint64_t monotonic_ns() {
  return read_clock_ns(CLOCK_MONOTONIC);
}

// Another thread may just be connecting.
bool reach_agent(Session& session) {
  for (int tries = 0; tries < 50; ++tries) {
    if (session.recording()) return true;
    if (!session.connecting()) return false;
    usleep(100);
  }
  return false;
}

// Whoever takes CUPTI waits for a turn, but not for long: it may hold what the turn's flush needs.
bool lock_within(pthread_mutex_t& mutex, std::uint64_t patience_ns) {
  const std::uint64_t until_ns = monotonic_ns() + patience_ns;
  while (pthread_mutex_trylock(&mutex) != 0) {
    if (monotonic_ns() >= until_ns) return false;
    usleep(100);
  }
  return true;
}

void exiting() {
  collector.stop();
}

}  // namespace

constinit Collector collector;

bool FlushThread::start(Turn turn, void* context) {
  turn_ = turn;
  context_ = context;
  stopping_.store(false, std::memory_order_relaxed);
  return start_own_thread(main, this);
}

bool FlushThread::stop(std::uint64_t patience_ns) {
  stopping_.store(true, std::memory_order_release);
  wake();
  return done_.wait(read_clock_ns(CLOCK_MONOTONIC) + patience_ns);
}

void* FlushThread::main(void* self) {
  pthread_setname_np(pthread_self(), "trimtab-flush");
  static_cast<FlushThread*>(self)->run();
  return nullptr;
}

void FlushThread::run() {
  while (!stopping_.load(std::memory_order_acquire)) wake_.wait(turn_(context_, false));
  turn_(context_, true);
  done_.wake();
}

void LossWindow::open(Session& session, const char* reason, std::uint64_t since_ns) {
  if (reason_ != nullptr && std::strcmp(reason_, reason) == 0) return;
  if (reason_ != nullptr) publish(session, since_ns);
  reason_ = reason;
  since_ns_ = since_ns;
}

void LossWindow::close(Session& session, std::uint64_t now_ns) {
  if (reason_ == nullptr) return;
  publish(session, now_ns);
  reason_ = nullptr;
}

void LossWindow::publish_long(Session& session, std::uint64_t now_ns) {
  if (reason_ == nullptr || now_ns < since_ns_ + kPieceNs) return;
  publish(session, now_ns);
  since_ns_ = now_ns;
}

void LossWindow::publish(Session& session, std::uint64_t end_ns) {
  if (!session.connected() || end_ns <= since_ns_) return;
  RecordFields fields;
  fields.kind = record::kWindow;
  fields.name = session.names().table->intern(reason_, std::strlen(reason_));
  fields.begin_ns = since_ns_;
  fields.end_ns = end_ns;
  fields.payload = collector_status.detail.load(std::memory_order_relaxed);
  session.ring().publish(fields);
}

void Collector::start(Session& session) {
  const int application_errno = errno;
  if (state_.reason == record::kCuptiNotAsked && pid_ != getpid()) {
    note(prepare(session));
    if (state_.running()) run();
    if (session.connected()) collector_status.copy_to(session.ring().header());
  }
  errno = application_errno;
}

void Collector::serve(Session& session) {
  if (pid_ == getpid()) return;
  (void)reach_agent(session);  // so that the thread does not look for it just as the first collectives come
  adopt(session);
  if (!register_exit_handler()) return;
  pid_ = getpid();
  if (!thread_.start(take_turn, this)) pid_ = 0;
}

void Collector::adopt(Session& session) {
  session_ = &session;
  settings_ = session.settings().cupti;
  policy_.begin(settings_.budget);
  recording_.set_cost_factor(policy_.cost_factor());
  collector_status.budget_ppm.store(static_cast<std::uint32_t>(settings_.budget * 1e6), std::memory_order_relaxed);
}

bool Collector::register_exit_handler() {
  exit_handler_ = exit_handler_ || std::atexit(exiting) == 0;
  return exit_handler_;
}

CuptiState Collector::prepare(Session& session) {
  adopt(session);
  if (!settings_.enabled) return {record::kCuptiSwitchedOff};
  if (!reach_agent(session)) return {record::kCuptiNoAgent};
  watch_ = TakeoverWatch({.stranded_after_ns = 5 * settings_.flush_ns,
                          .quiet_after_ns = 5 * settings_.flush_ns,
                          .back_off_ns = settings_.back_off_ns,
                          .longest_back_off_ns = 16 * settings_.back_off_ns,
                          .trial_ns = 10 * settings_.flush_ns});
  CuptiState state = recording_.open(settings_, session);
  collector_status.cupti_version.store(recording_.library().version, std::memory_order_relaxed);
  if (!state.running()) return state;
  // Before CUPTI does anything: a program that may exit at any time has our handler, which runs before CUPTI's own.
  if (!register_exit_handler()) return {record::kCuptiNoMemory};
  return recording_.begin();
}

void Collector::run() {
  collector_status.detail.store(policy_.level(), std::memory_order_relaxed);
  set_recording(true);
  pid_ = getpid();
  if (settings_.follow_profilers) {
    handover::begin(
        recording_.library(), [](bool recording, bool callbacks) { collector.stand_back(recording, callbacks); },
        [](bool fetched) { collector.told_.store(fetched ? kGivenBack : kStopped, std::memory_order_relaxed); });
  }
  if (thread_.start(take_turn, this)) {
    counting_.store(true, std::memory_order_release);
    return;
  }
  pid_ = 0;
  set_recording(false);
  recording_.pause();
  note({record::kCuptiNoMemory});
}

void Collector::stop() {
  if (pid_ == 0 || pid_ != getpid()) return;
  counting_.store(false, std::memory_order_relaxed);
  range_ids.pause();
  thread_.stop(kExitPatienceNs);
  pid_ = 0;
}

void Collector::restart_after_fork() {
  counting_.store(false, std::memory_order_relaxed);
  range_ids.pause();
  turn_ = PTHREAD_MUTEX_INITIALIZER;  // the parent's thread may have had it
  if (pid_ == 0) return;              // CUDA may still begin here
  pid_ = 0;
  on_ = false;
  note({record::kCuptiForkedChild});
}

void Collector::step_ended() {
  const std::uint64_t number = ending_.fetch_add(1, std::memory_order_relaxed);
  step_ends_[number % kStepEnds].store(monotonic_ns(), std::memory_order_relaxed);
  steps_.fetch_add(1, std::memory_order_release);
  launched();
  if (wants_steps_.load(std::memory_order_relaxed)) thread_.wake();
}

std::uint64_t Collector::take_turn(void* self, bool last) {
  auto& own = *static_cast<Collector*>(self);
  if (!last && monotonic_ns() >= own.flush_due_ns_) handover::look_for_profilers();
  pthread_mutex_lock(&own.turn_);
  const std::uint64_t due_ns = own.turn(last);
  pthread_mutex_unlock(&own.turn_);
  return due_ns;
}

std::uint64_t Collector::turn(bool last) {
  recording_.accounts_for_itself(pthread_self());
  const std::uint64_t cpu_ns = read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  const std::uint64_t now_ns = monotonic_ns();
  if (last) {
    flush(true);
    window_.close(*session_, inject::now_ns());
  } else {
    hear_steps();
    if (now_ns >= flush_due_ns_) look_around(now_ns);
    if (state_.running()) {
      follow(reason_to_pause(now_ns));
    } else {
      policy_.keep_budget(recording_state(now_ns));
      follow_budget_alone();
    }
  }
  collector_status.add_cost(read_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns);
  report();
  const std::uint64_t due_ns = std::min(flush_due_ns_, policy_.due_ns(now_ns));
  const CollectorStatus::Follower follower = collector_status.follower.load(std::memory_order_acquire);
  return follower == nullptr || last ? due_ns : std::min(due_ns, now_ns + follower());
}

void Collector::look_around(std::uint64_t now_ns) {
  flush_due_ns_ = now_ns + settings_.flush_ns;
  if (session_->recording()) session_->keep_connected(inject::now_ns());
  if (state_.running() || state_.reason == record::kCuptiForeign) {
    flush(false);
    hear_of_profiler(now_ns);
    watch(now_ns);
    reclaim_lost();
    exit_before_cupti();
    name_devices(now_ns);
    policy_.flushed(recording_state(now_ns));
    recording_.set_cost_factor(policy_.cost_factor());
  }
}

// Once there are kernels: CUDA answers then. Again and again, because an agent that comes later has to hear it, too.
void Collector::name_devices(std::uint64_t now_ns) {
  if (now_ns < naming_due_ns_ || !session_->connected()) return;
  if (recording_.counts().kernels.load(std::memory_order_relaxed) == 0) return;
  naming_due_ns_ = now_ns + kNamingPeriodNs;
  if (devices_ < 0) devices_ = read_device_uuids(uuids_);
  RecordFields fields;
  fields.kind = record::kDevice;
  fields.begin_ns = fields.end_ns = inject::now_ns();
  for (int number = 0; number < devices_; ++number) {
    fields.depth = static_cast<std::uint16_t>(number);
    fields.name = session_->names().table->intern(uuids_[number].text, std::strlen(uuids_[number].text));
    session_->ring().publish(fields);
  }
}

// A takeover's last trace: the first of the last two turns marks what looks lost, and a flush lies between them.
void Collector::reclaim_lost() {
  if (flushes_to_reclaim_ == 0 || failures_ != 0 || !on_) return;
  --flushes_to_reclaim_;
  if (flushes_to_reclaim_ == 1) recording_.suspect_lost();
  if (flushes_to_reclaim_ == 0) recording_.reclaim_lost();
}

// What CUDA and CUPTI have registered while they started runs before our first handler, so there is a second one.
void Collector::exit_before_cupti() {
  if (late_exit_handler_ || recording_.counts().requested.load(std::memory_order_relaxed) == 0) return;
  late_exit_handler_ = std::atexit(exiting) == 0;
}

// Not before CUPTI has asked for a buffer: until then CUDA may still be starting, and there is nothing to take.
void Collector::flush(bool forced) {
  const RecordingCounts& counts = recording_.counts();
  if (!state_.running() || counts.requested.load(std::memory_order_relaxed) == 0) return;
  const CuptiState state = recording_.flush(forced);
  failures_ = state.running() ? 0 : failures_ + 1;
  if (failures_ < kMaxFailures) return;
  if (forced || counts.kernels.load(std::memory_order_relaxed) == 0) return note(state);
  failures_ = 0;
  recording_.pause();
  const std::uint64_t now_ns = monotonic_ns();
  watch_.leave(now_ns);
  back_off(kFailed, now_ns, {record::kCuptiForeign, state.call, state.result});
}

// CUPTI is left alone for a while. Records may have been lost since `since_ns` (monotonic).
void Collector::back_off(const char* reason, std::uint64_t since_ns, CuptiState state) {
  const std::uint64_t now_ns = monotonic_ns();
  set_recording(false);
  window_.open(*session_, reason, inject::now_ns() - (now_ns - std::min(now_ns, since_ns)));
  note(state);
}

WatchSample Collector::watch_sample(std::uint64_t now_ns) const {
  const RecordingCounts& counts = recording_.counts();
  WatchSample sample;
  sample.now_ns = now_ns;
  sample.requested = counts.requested.load(std::memory_order_relaxed);
  sample.kernels = counts.kernels.load(std::memory_order_relaxed);
  sample.foreign = counts.foreign.load(std::memory_order_relaxed);
  sample.progress = progress_.load(std::memory_order_relaxed);
  return sample;
}

void Collector::watch(std::uint64_t now_ns) {
  WatchSample sample = watch_sample(now_ns);
  if (!on_ && !watch_.foreign()) return watch_.paused(sample);
  const bool silent = sample.kernels == seen_kernels_;
  seen_kernels_ = sample.kernels;
  sample.stranded = silent && !watch_.foreign() && recording_.stranded();
  sample.kinds_gone = !watch_.foreign() && recording_.kinds_gone();
  const TakeoverWatch::Action action = watch_.look(sample);
  if (action == TakeoverWatch::Action::kReturn) come_back(now_ns);
  if (action != TakeoverWatch::Action::kBackOff) return;
  recording_.give_up_graphs();
  back_off(kForeignProfiler, watch_.suspected_since_ns(), {record::kCuptiForeign});
}

// Another profiler is about to take CUPTI, on this thread of its.
void Collector::stand_back(bool recording, bool callbacks) {
  if (pid_ != getpid()) return;
  const std::uint64_t now_ns = monotonic_ns();
  const std::uint64_t charged_ns = collector_status.cost_ns.load(std::memory_order_relaxed);
  if (!lock_within(turn_, kHandoverPatienceNs)) return told_.store(kTaken, std::memory_order_relaxed);
  told_.store(kNothing, std::memory_order_relaxed);
  if (state_.running()) {
    make_way(now_ns);
  } else if (state_.reason == record::kCuptiForeign && (callbacks || !made_way_)) {
    recording_.fetch_lent();
  }
  made_way_ = true;
  if (state_.reason == record::kCuptiForeign) watch_.taken(now_ns, recording);
  pthread_mutex_unlock(&turn_);
  const std::uint64_t spent_ns = monotonic_ns() - now_ns;
  const std::uint64_t counted_ns = collector_status.cost_ns.load(std::memory_order_relaxed) - charged_ns;
  if (spent_ns > counted_ns) collector_status.add_cost(spent_ns - counted_ns);
}

void Collector::make_way(std::uint64_t now_ns) {
  set_recording(false);
  recording_.hand_over();
  back_off(kForeignProfiler, now_ns, {record::kCuptiForeign});
  report();
}

void Collector::hear_of_profiler(std::uint64_t now_ns) {
  const int told = told_.exchange(kNothing, std::memory_order_relaxed);
  if (told == kNothing) return;
  // It went past us, or has switched off what was ours: all over again once it is through.
  if (state_.running()) {
    if (told == kTaken) {
      back_off(kForeignProfiler, now_ns, {record::kCuptiForeign});
    } else {
      make_way(now_ns);
    }
    watch_.taken(now_ns, told == kTaken);
  }
  if (told == kStopped) watch_.stopped(now_ns);
  if (told == kGivenBack) watch_.given_back(now_ns);
}

void Collector::come_back(std::uint64_t now_ns) {
  made_way_ = false;
  const CuptiState state = recording_.begin();
  if (state.reason == record::kCuptiBusy) {
    watch_.leave(now_ns);
    return back_off(kForeignProfiler, now_ns, {record::kCuptiForeign, state.call, state.result});
  }
  switch_on(state);
  flushes_to_reclaim_ = kFlushesToReclaim;
}

void Collector::hear_steps() {
  const std::uint64_t ended = steps_.load(std::memory_order_acquire);
  if (ended - heard_steps_ > kStepEnds) {
    policy_.steps_missed();
    heard_steps_ = ended - kStepEnds / 2;  // the older ones may be written over just now
  }
  for (; heard_steps_ < ended; ++heard_steps_) {
    policy_.step_ended(step_ends_[heard_steps_ % kStepEnds].load(std::memory_order_relaxed));
  }
}

RecordingState Collector::recording_state(std::uint64_t now_ns) const {
  const RecordingCounts& counts = recording_.counts();
  RecordingState state;
  state.now_ns = now_ns;
  state.cost_ns = collector_status.cost_ns.load(std::memory_order_relaxed);
  state.base_ns = counts.base_cost_ns.load(std::memory_order_relaxed);
  state.kernels = counts.kernels.load(std::memory_order_relaxed);
  state.steps = steps_.load(std::memory_order_relaxed);
  if (session_->connected()) state.ring_drops = session_->ring().header().dropped.load(std::memory_order_relaxed);
  return state;
}

// Without CUPTI the budget is NCCL's collectives' alone.
void Collector::follow_budget_alone() {
  collector_status.detail.store(std::min(policy_.level(), record::kDetailCollectives), std::memory_order_relaxed);
}

bool Collector::full_detail_asked() const {
  if (!session_->connected()) return false;
  const std::uint64_t until_ns = session_->ring().header().full_detail_until_ns.load(std::memory_order_relaxed);
  const std::uint64_t now_ns = inject::now_ns();
  return until_ns > now_ns && until_ns - now_ns <= kLongestFullDetailNs;
}

const char* Collector::reason_to_pause(std::uint64_t now_ns) {
  const bool asked = full_detail_asked();
  const RecordingPolicy::Record record = policy_.decide(recording_state(now_ns), asked);
  wants_steps_.store(policy_.waits_for_steps(), std::memory_order_relaxed);
  collector_status.detail.store(asked ? record::kDetailAll : policy_.level(), std::memory_order_relaxed);
  if (!session_->agent_there()) return kNoAgent;
  if (record == RecordingPolicy::Record::kAll) return nullptr;
  return record == RecordingPolicy::Record::kNotNow ? kSampling : kBudget;
}

void Collector::follow(const char* reason) {
  if (reason != nullptr) window_.open(*session_, reason, inject::now_ns());
  if (on_ == (reason == nullptr)) return;
  if (reason == nullptr) return begin_phase();
  set_recording(false);
  note(recording_.pause());
}

// What the phases before have recorded is here after a flush: if nothing is, though steps went by, the kinds are
// another profiler's by now.
void Collector::begin_phase() {
  flush(false);
  if (!state_.running()) return;
  const std::uint64_t now_ns = monotonic_ns();
  const TakeoverWatch::Action action = watch_.next_phase(watch_sample(now_ns), phase_steps_);
  if (action == TakeoverWatch::Action::kNone) return switch_on(recording_.resume());
  back_off(kForeignProfiler, watch_.suspected_since_ns(), {record::kCuptiForeign});
}

// `state` is what switching the kinds on came to.
void Collector::switch_on(CuptiState state) {
  note(state);
  if (!state.running()) return window_.open(*session_, kFailed, inject::now_ns());
  set_recording(true);
  window_.close(*session_, inject::now_ns());
}

void Collector::set_recording(bool on) {
  const std::uint64_t now_ns = monotonic_ns();
  const std::uint64_t steps = steps_.load(std::memory_order_relaxed);
  if (on_ && !on) phase_steps_ = steps - on_since_steps_;
  policy_.recorded(on, recording_state(now_ns));
  on_since_steps_ = steps;
  on_ = on;
  if (on && recording_.correlates()) {
    range_ids.begin(recording_.library());
  } else {
    range_ids.pause();
  }
}

void Collector::note(CuptiState state) {
  state_ = state;
  collector_status.cupti_state.store(state.packed(), std::memory_order_relaxed);
  if (state.running()) return;
  follow_budget_alone();
  if (pid_ == getpid() && on_) {
    set_recording(false);
    recording_.pause();
    window_.open(*session_, kFailed, inject::now_ns());
  }
}

void Collector::report() {
  window_.publish_long(*session_, inject::now_ns());
  if (session_->connected()) collector_status.copy_to(session_->ring().header());
}

}  // namespace trimtab::inject::cupti
