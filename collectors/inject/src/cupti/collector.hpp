#pragma once

// Kernels, copies and graph launches of this process into its ring: from InitializeInjection to the end of the process.
// One thread of ours flushes CUPTI, watches for other profilers, keeps the budget and reports; CUPTI's callbacks
// decode. Without an agent, a libcupti or a wish for it nothing of this runs, but where NCCL's plugin asks for the
// thread, which then keeps the budget of the collectives alone.

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "activity_recording.hpp"
#include "recording_policy.hpp"
#include "session.hpp"
#include "settings.hpp"
#include "takeover_watch.hpp"
#include "wakeup.hpp"

namespace trimtab::inject::cupti {

// The collector's thread. Runs a function at the times that the function asks for, or sooner when it is woken; takes
// no signals. No lock: any thread and any callback may wake it.
class FlushThread {
 public:
  // Runs on the thread: returns when it wants to be called next (CLOCK_MONOTONIC). `last`: for the last time.
  using Turn = std::uint64_t (*)(void* context, bool last);

  constexpr FlushThread() = default;

  // False when no thread can be had.
  bool start(Turn turn, void* context);
  void wake() { wake_.wake(); }
  // Asks for the last turn and waits until it is over, at most so long. False: it still runs, and will not stop.
  bool stop(std::uint64_t patience_ns);

 private:
  static void* main(void* self);
  void run();

  Wakeup wake_;
  Wakeup done_;
  std::atomic<bool> stopping_{false};
  Turn turn_ = nullptr;
  void* context_ = nullptr;
};

// The present stretch of time in which kernels are not all recorded, published as kWindow records: when it ends, when
// its reason changes, and every five seconds of a long one. One thread.
class LossWindow {
 public:
  static constexpr std::uint64_t kPieceNs = 5'000'000'000;

  constexpr LossWindow() = default;

  // Kernels are lost from `since_ns` (real time) on. Another reason ends the window before; the same one changes
  // nothing. `reason` is a literal.
  void open(Session& session, const char* reason, std::uint64_t since_ns);
  void close(Session& session, std::uint64_t now_ns);
  // Publishes what has become long.
  void publish_long(Session& session, std::uint64_t now_ns);

 private:
  void publish(Session& session, std::uint64_t end_ns);

  const char* reason_ = nullptr;
  std::uint64_t since_ns_ = 0;
};

class Collector {
 public:
  constexpr Collector() = default;

  // Once a process, from InitializeInjection: CUDA is starting, on the application's thread.
  void start(Session& session);
  // From NCCL's plugin, which needs the thread: a process without CUPTI has none yet. Not at the same time as start().
  void serve(Session& session);
  // At exit: takes what CUPTI still has. Waits for that, but not for long.
  void stop();
  void restart_after_fork();

  // For the recorder, on any thread.
  [[nodiscard]] bool counts_steps() const { return counting_.load(std::memory_order_relaxed); }
  void step_ended();
  RangeIds range_ids;
  // Somebody has put work on a device: silence of CUPTI's would be wrong.
  void launched() { progress_.fetch_add(1, std::memory_order_relaxed); }

 private:
  CuptiState prepare(Session& session);
  void adopt(Session& session);
  bool register_exit_handler();
  void run();
  static std::uint64_t take_turn(void* self, bool last);
  std::uint64_t turn(bool last);
  void look_around(std::uint64_t now_ns);
  void flush(bool forced);
  void reclaim_lost();
  void name_devices(std::uint64_t now_ns);
  void exit_before_cupti();
  [[nodiscard]] WatchSample watch_sample(std::uint64_t now_ns) const;
  void watch(std::uint64_t now_ns);
  void back_off(const char* reason, std::uint64_t since_ns, CuptiState state);
  void come_back(std::uint64_t now_ns);
  void stand_back(bool recording, bool callbacks);
  void make_way(std::uint64_t now_ns);
  void hear_of_profiler(std::uint64_t now_ns);
  void hear_steps();
  [[nodiscard]] RecordingState recording_state(std::uint64_t now_ns) const;
  void follow_budget_alone();
  // What is to be recorded now: nullptr = everything, else why not.
  [[nodiscard]] const char* reason_to_pause(std::uint64_t now_ns);
  [[nodiscard]] bool full_detail_asked() const;
  void follow(const char* reason);
  void begin_phase();
  void switch_on(CuptiState state);
  void set_recording(bool on);
  void note(CuptiState state);
  void report();

  ActivityRecording recording_;
  FlushThread thread_;
  TakeoverWatch watch_;
  enum Told : int { kNothing, kTaken, kStopped, kGivenBack };
  std::atomic<int> told_{kNothing};                   // of another profiler
  pthread_mutex_t turn_ = PTHREAD_MUTEX_INITIALIZER;  // the thread's turn, or another profiler that takes CUPTI
  RecordingPolicy policy_;
  LossWindow window_;
  Session* session_ = nullptr;
  CuptiSettings settings_;
  CuptiState state_;
  std::atomic<int> pid_{0};  // of the process that the thread belongs to; 0: none
  bool on_ = false;
  bool made_way_ = false;  // no buffer of ours is in CUPTI, if its callbacks are not ours
  bool exit_handler_ = false;
  bool late_exit_handler_ = false;
  int failures_ = 0;  // flushes in a row
  int flushes_to_reclaim_ = 0;
  std::uint64_t phase_steps_ = 0;  // that ended in the last phase of recording
  std::uint64_t on_since_steps_ = 0;
  std::uint64_t seen_kernels_ = 0;
  std::uint64_t heard_steps_ = 0;
  std::uint64_t flush_due_ns_ = 0;
  DeviceUuid uuids_[kMostDevices];
  int devices_ = -1;  // of which the UUIDs are known; -1: not asked yet
  std::uint64_t naming_due_ns_ = 0;
  std::atomic<bool> counting_{false};
  std::atomic<bool> wants_steps_{false};                  // the thread is to be woken when a step ends
  static constexpr std::uint64_t kStepEnds = 256;         // a power of two
  std::atomic<std::uint64_t> step_ends_[kStepEnds] = {};  // the latest, by number
  std::atomic<std::uint64_t> ending_{0};                  // whose end is being written
  std::atomic<std::uint64_t> steps_{0};
  std::atomic<std::uint64_t> progress_{0};
};

// The process's only one.
extern Collector collector;

}  // namespace trimtab::inject::cupti
