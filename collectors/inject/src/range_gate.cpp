#include "range_gate.hpp"

#include <pthread.h>
#include <unistd.h>

#include "collector_status.hpp"
#include "own_thread.hpp"
#include "session.hpp"

namespace trimtab::inject {

constinit RangeGate range_gate;

std::uint64_t RangeGate::pause_ns(std::uint64_t elapsed_ns, double budget) {
  if (budget >= 1) return 0;
  const double share = kPart * (budget > 0 ? budget : CuptiSettings{}.budget);
  const auto paid_ns = static_cast<std::uint64_t>(static_cast<double>(kBurst * kRangeCostNs) / share);
  return paid_ns > elapsed_ns ? paid_ns - elapsed_ns : 0;
}

void RangeGate::burst_ended(Session& session, std::uint64_t began_ns, std::uint64_t now_ns) {
  collector_status.add_cost(kBurst * kRangeCostNs);
  const std::uint64_t pause = pause_ns(now_ns > began_ns ? now_ns - began_ns : 0, session.settings().cupti.budget);
  if (pause == 0 || shutting_.exchange(true, std::memory_order_acquire)) return;
  session_ = &session;
  shut_ns_ = now_ns;
  due_ns_ = read_clock_ns(CLOCK_MONOTONIC) + pause;
  open_.store(false, std::memory_order_release);
  if (start()) return wake_.wake();
  open_.store(true, std::memory_order_relaxed);
  shutting_.store(false, std::memory_order_release);
}

bool RangeGate::start() {
  if (pid_.load(std::memory_order_relaxed) == getpid()) return true;
  if (!start_own_thread(main, this)) return false;
  pid_.store(getpid(), std::memory_order_relaxed);
  return true;
}

void* RangeGate::main(void* self) {
  pthread_setname_np(pthread_self(), "trimtab-ranges");
  static_cast<RangeGate*>(self)->run();
  return nullptr;
}

// Woken when the gate has been shut; sleeps until the burst is paid for.
void RangeGate::run() {
  for (;;) {
    while (open_.load(std::memory_order_acquire)) wake_.wait(read_clock_ns(CLOCK_MONOTONIC) + 3600 * kSecondNs);
    while (read_clock_ns(CLOCK_MONOTONIC) < due_ns_) wake_.wait(due_ns_);
    RecordFields fields;
    fields.kind = record::kRangesLeftOut;
    fields.begin_ns = shut_ns_;
    fields.end_ns = now_ns();
    if (session_->connected() && fields.end_ns > fields.begin_ns) session_->ring().publish(fields);
    era_.fetch_add(1, std::memory_order_release);
    open_.store(true, std::memory_order_release);
    shutting_.store(false, std::memory_order_release);
  }
}

void RangeGate::restart_after_fork() {
  open_.store(true, std::memory_order_relaxed);
  shutting_.store(false, std::memory_order_relaxed);
  era_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace trimtab::inject
