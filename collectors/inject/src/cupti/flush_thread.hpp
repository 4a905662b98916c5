#pragma once

// The library's only thread. Runs a function at the times that the function asks for, or sooner when it is woken; takes
// no signals. No lock: waking is a semaphore, which any thread and any callback may post.

#include <pthread.h>
#include <semaphore.h>

#include <atomic>
#include <cstdint>

namespace trimtab::inject::cupti {

class FlushThread {
 public:
  // Runs on the thread: returns when it wants to be called next (CLOCK_MONOTONIC). `last`: for the last time.
  using Turn = std::uint64_t (*)(void* context, bool last);

  constexpr FlushThread() = default;

  // False when no thread can be had.
  bool start(Turn turn, void* context);
  void wake() { sem_post(&wake_); }
  // Asks for the last turn and waits until it is over, at most so long. False: it still runs, and will not stop.
  bool stop(std::uint64_t patience_ns);

 private:
  static void* main(void* self);
  void run();
  // False when the time was up.
  static bool wait(sem_t& semaphore, std::uint64_t until_ns);

  sem_t wake_{};
  sem_t done_{};
  std::atomic<bool> stopping_{false};
  Turn turn_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace trimtab::inject::cupti
