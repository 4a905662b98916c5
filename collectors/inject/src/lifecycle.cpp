#include "lifecycle.hpp"

#include <pthread.h>

#include "recorder.hpp"

namespace trimtab::inject {

namespace {

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

bool watch_process() {
  return recorder.threads.start(thread_ends) && pthread_atfork(nullptr, nullptr, child_begins) == 0;
}

}  // namespace trimtab::inject
