#pragma once

// A thread of ours inside somebody else's process: it takes no signals, and nobody waits for its end.

#include <pthread.h>
#include <signal.h>

namespace trimtab::inject {

// False when none can be had.
inline bool start_own_thread(void* (*main)(void*), void* context) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const bool started = pthread_create(&thread, nullptr, main, context) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) pthread_detach(thread);
  return started;
}

}  // namespace trimtab::inject
