#pragma once

// CUPTI's activity interface in use: callbacks registered, kinds switched on and off, buffers lent and decoded. Never
// subscribes: on the interface that torch.profiler uses there is one subscriber, and it would no longer be that.
//
// open(), begin(), resume(), pause(), hand_over() and flush() are for one thread at a time; the callbacks come on any
// thread, and no lock is held in them.

#include <atomic>
#include <cstdint>

#include "activity_buffers.hpp"
#include "activity_decoder.hpp"
#include "cupti_library.hpp"
#include "session.hpp"
#include "settings.hpp"

namespace trimtab::inject::cupti {

// Numbers for ranges, given to CUPTI on the launching thread, which hands them back with each kernel that was launched
// while the range was the innermost: so a kernel finds its operator. Any thread may call any method; ids are only for
// ranges that begin and end on one thread.
class RangeIds {
 public:
  // After that, push() gives ids. `library` must correlate and outlive us.
  void begin(const Library& library) {
    library_ = &library;
    on_.store(true, std::memory_order_release);
  }
  void pause() { on_.store(false, std::memory_order_release); }

  // The id of a range that is being opened; 0 while nothing is recorded.
  std::uint32_t push() {
    if (!on_.load(std::memory_order_acquire)) [[likely]]
      return 0;
    return push_next();
  }
  // A range with an id ends; it was the innermost of its thread that has one.
  void pop();
  // It was not the innermost: puts an id that pop() took out back in.
  void push_again(std::uint32_t id);

 private:
  std::uint32_t push_next();

  std::atomic<bool> on_{false};
  std::atomic<std::uint32_t> last_{0};
  const Library* library_ = nullptr;
};

// Since the process began.
struct RecordingCounts {
  std::atomic<std::uint64_t> requested{0};
  std::atomic<std::uint64_t> kernels{0};
  std::atomic<std::uint64_t> foreign{0};       // records that others have switched on
  std::atomic<std::uint64_t> base_cost_ns{0};  // of the records, by the settings' constants
};

class ActivityRecording {
 public:
  constexpr ActivityRecording() = default;

  // Finds CUPTI and allocates. The recording is for this process and `session`, which must outlive it.
  CuptiState open(const CuptiSettings& settings, Session& session);
  // Takes the callbacks and switches on. Also after another profiler has had them. Refused: all is off.
  CuptiState begin();
  CuptiState resume();
  CuptiState pause();
  // Our part in CUPTI is over, but for its callbacks, which the next to register takes: nothing is recorded, and no
  // buffer of ours is left in it. Kernels that run just then come without stamps. begin() takes it again.
  void hand_over();
  // The same where our kinds are off or another's.
  void fetch_lent();
  // Takes what is complete; `forced`, at the end, also what is not. Counts what CUPTI had to drop.
  CuptiState flush(bool forced);

  // The calling thread's CPU time is counted by itself: decoding on it is not counted again.
  void accounts_for_itself(unsigned long thread) { accounting_thread_.store(thread, std::memory_order_relaxed); }

  // By how much more a record costs than the settings say (OwnCost), from the next buffer on.
  void set_cost_factor(double factor) { cost_permille_.store(static_cast<std::uint64_t>(1000 * factor)); }

  [[nodiscard]] const Library& library() const { return library_; }
  [[nodiscard]] const RecordingCounts& counts() const { return counts_; }
  [[nodiscard]] bool correlates() const { return library_.correlates() && !no_correlation_; }
  // CUPTI is left to another profiler: a graph's kernels are to be its records again. resume() takes them back.
  void give_up_graphs();
  // Takes back the buffers that another profiler was handed instead of us: many flushes after begin() had the callbacks
  // again, CUPTI cannot still hold one in which all is finished. suspect_lost() marks them; after one more flush that
  // succeeded, reclaim_lost() lends those again that still look so.
  void suspect_lost();
  void reclaim_lost();
  // A lent buffer has finished records in it and no unfinished one: a flush should have brought it back.
  [[nodiscard]] bool stranded() const;
  // CUPTI said that kernels are recorded, and says so no longer. Always false before 13.3, which says nothing.
  [[nodiscard]] bool kinds_gone() const;

 private:
  static void requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records);
  static void completed(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t bytes,
                        std::size_t valid_bytes);
  void lend(std::uint8_t** buffer, std::size_t* bytes);
  void take(std::uint8_t* buffer, std::size_t valid_bytes);
  void decode(std::uint8_t* buffer, std::size_t valid_bytes, bool ours);
  [[nodiscard]] std::uint64_t count_records(std::uint8_t* buffer, std::size_t valid_bytes) const;
  [[nodiscard]] bool holds_finished_records(std::uint8_t* buffer) const;

  [[nodiscard]] bool kernels_told() const;

  CuptiState switch_needed(bool on);
  void switch_optional(std::uint32_t kind, bool on, bool& refused);
  void switch_launches(bool on);

  Library library_;
  ActivityBuffers buffers_;
  KernelNames names_;
  ActivityDecoder decoder_;
  RecordingCounts counts_;
  Session* session_ = nullptr;
  int pid_ = 0;
  std::uint64_t kernel_cost_ns_ = 0;
  std::uint64_t graph_cost_ns_ = 0;
  std::atomic<std::uint64_t> cost_permille_{1000};
  bool graph_nodes_ = false;
  bool begun_ = false;
  bool no_graphs_ = false;  // refused by this release
  bool no_correlation_ = false;
  bool no_overhead_ = false;
  bool kinds_told_ = false;
  bool suspected_[ActivityBuffers::kMaxBuffers] = {};
  std::atomic<unsigned long> accounting_thread_{0};
};

}  // namespace trimtab::inject::cupti
