#include "flush_thread.hpp"

#include <signal.h>

#include <cerrno>

#include "clock.hpp"

namespace trimtab::inject::cupti {

bool FlushThread::start(Turn turn, void* context) {
  turn_ = turn;
  context_ = context;
  if (sem_init(&wake_, 0, 0) != 0 || sem_init(&done_, 0, 0) != 0) return false;
  stopping_.store(false, std::memory_order_relaxed);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const bool started = pthread_create(&thread, nullptr, main, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) pthread_detach(thread);
  return started;
}

bool FlushThread::stop(std::uint64_t patience_ns) {
  stopping_.store(true, std::memory_order_release);
  wake();
  return wait(done_, read_clock_ns(CLOCK_MONOTONIC) + patience_ns);
}

void* FlushThread::main(void* self) {
  pthread_setname_np(pthread_self(), "trimtab-flush");
  static_cast<FlushThread*>(self)->run();
  return nullptr;
}

void FlushThread::run() {
  while (!stopping_.load(std::memory_order_acquire)) {
    wait(wake_, turn_(context_, false));
    while (sem_trywait(&wake_) == 0) continue;  // one turn for all who called
  }
  turn_(context_, true);
  sem_post(&done_);
}

bool FlushThread::wait(sem_t& semaphore, std::uint64_t until_ns) {
  const timespec until{static_cast<time_t>(until_ns / kSecondNs), static_cast<long>(until_ns % kSecondNs)};
  for (;;) {
    if (sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until) == 0) return true;
    if (errno != EINTR) return false;
  }
}

}  // namespace trimtab::inject::cupti
