#pragma once

// Whether another profiler has CUPTI now. On the interface that torch.profiler uses, the last to register its callbacks
// has them, and stopping switches the record kinds off for everybody; nothing tells the one who had them before. So we
// look at what we can see, step back, and come back after a while; each time that turns out to be too early, the while
// doubles. Coming back takes the callbacks, and the other would lose its records: that is why the first while is long.
// What Handover is told of needs no evidence.
// Pure: time is an argument.

#include <cstdint>

namespace trimtab::inject::cupti {

// What is seen at one look; counts since the collector began.
struct WatchSample {
  std::uint64_t now_ns = 0;     // monotonic
  std::uint64_t requested = 0;  // buffers that CUPTI asked us for
  std::uint64_t kernels = 0;    // kernels, copies, memsets and graph launches that came
  std::uint64_t foreign = 0;    // records of kinds that we have not switched on
  std::uint64_t progress = 0;   // signs that the job launches work: training steps, NCCL's launches
  bool stranded = false;        // a buffer of ours holds finished records and was not handed back by a flush
  bool kinds_gone = false;      // CUPTI says that kernels are no longer recorded (13.3 and later)
};

struct WatchOptions {
  std::uint64_t stranded_after_ns = 5'000'000'000;
  std::uint64_t quiet_after_ns = 10'000'000'000;
  std::uint64_t foreign_records = 8;  // between two looks
  std::uint64_t quiet_progress = 3;   // this many signs without a kernel, where kernels came before
  std::uint64_t quiet_steps = 2;      // in phases; the first may have ended as its phase began
  std::uint64_t back_off_ns = 60'000'000'000;
  std::uint64_t longest_back_off_ns = 960'000'000'000;
  std::uint64_t trial_ns = 10'000'000'000;  // after coming back
};

class TakeoverWatch {
 public:
  enum class Action { kNone, kBackOff, kReturn };

  constexpr explicit TakeoverWatch(const WatchOptions& options = {})
      : options_(options), back_off_ns_(options.back_off_ns) {}

  // kBackOff: leave CUPTI alone from now on. kReturn: register and switch on again.
  Action look(const WatchSample& sample);
  // Nothing is being recorded on our own wish: silence says nothing.
  void paused(const WatchSample& sample);
  // Where recording comes in phases: before each, after a flush. `steps` ended in the last one. kBackOff: no kernel
  // came of phases that a whole step lay in, though kernels had come before.
  Action next_phase(const WatchSample& sample, std::uint64_t steps);
  // Somebody else found out that CUPTI cannot be used now: as after kBackOff.
  Action leave(std::uint64_t now_ns);

  // We were told: another has CUPTI, and, `recording`, keeps it however long that takes. It has stopped, and what it
  // recorded is perhaps not with it yet. It is through. The next look comes back then.
  void taken(std::uint64_t now_ns, bool recording);
  void stopped(std::uint64_t now_ns);
  void given_back(std::uint64_t now_ns);

  [[nodiscard]] bool foreign() const { return state_ == State::kForeign; }
  // When the present doubt began: records may have been lost from then on.
  [[nodiscard]] std::uint64_t suspected_since_ns() const { return suspected_ns_; }

 private:
  enum class State { kOurs, kForeign, kTrial };

  [[nodiscard]] bool evidence(const WatchSample& sample);
  [[nodiscard]] bool stranded_long(const WatchSample& sample);
  [[nodiscard]] bool quiet_long(const WatchSample& sample) const;
  Action come_back(const WatchSample& sample);

  WatchOptions options_;
  State state_ = State::kOurs;
  std::uint64_t back_off_ns_;
  std::uint64_t until_ns_ = 0;  // of kForeign and kTrial
  std::uint64_t suspected_ns_ = 0;
  std::uint64_t stranded_ns_ = 0;  // since when, 0 = it is not
  WatchSample last_;               // when kernels last came
  WatchSample phase_;              // before the first phase without a kernel
  std::uint64_t phase_steps_ = 0;  // since then
  std::uint64_t foreign_ = 0;      // seen so far
  bool started_ = false;
};

}  // namespace trimtab::inject::cupti
