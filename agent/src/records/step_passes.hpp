#pragma once

// What one rank spent in its operators' passes in each of an epoch's first warm steps: what its stage of the plan
// really costs, without waiting for other stages; and where the rest of the step went. On a host the ranges themselves;
// on a device the kernels that the passes launched, and the device's shares of the step. A step with passes that
// overlap others, or of which some are lost, is left out. Pure; memory is bounded. Single-threaded.

#include <deque>

#include "records/ring_reader.hpp"
#include "records/step_shares.hpp"

namespace trimtab::agent {

// Where a rank's time went in one step, by its ranges (docs/protocols.md, "Ranges"): what its own thread computed, and
// what it waited for while it did not. At every moment the first of these counts:
//   computation  an operator's pass, or the optimizer, on any thread; collectives inside a pass are its own
//   collectives  a collective on the step's thread with a pass still to come: a change of layout
//   transfers    a transfer on the step's thread
//   gradients    any other collective: it runs, and nothing hides it
//   idle         none of them
// On a device its streams say so, not the ranges; what each communication was for, the ranges that handed it out. The
// parts of a term, of a device alone, are told where they are known. Pure; memory is the caller's.
struct StepTermTimes {
  std::uint64_t computation_ns = 0;
  std::uint64_t collectives_ns = 0;
  std::uint64_t transfers_ns = 0;
  std::uint64_t gradients_ns = 0;
  std::uint64_t idle_ns = 0;
  std::optional<std::uint64_t> own_ns = std::nullopt;           // of computation_ns: collectives inside passes
  std::optional<std::uint64_t> bubble_ns = std::nullopt;        // of transfers_ns: the other stage was not there yet
  std::optional<std::uint64_t> launch_bound_ns = std::nullopt;  // of idle_ns
  std::optional<std::uint64_t> data_ns = std::nullopt;          // of idle_ns
  bool operator==(const StepTermTimes&) const = default;
};

struct StepInterval {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  RangeName::Kind work = RangeName::Kind::kOperator;
  std::uint32_t thread = 0;
};

// `intervals` in any order; what lies outside of the step is cut off.
[[nodiscard]] StepTermTimes step_terms(std::vector<StepInterval> intervals, std::uint64_t begin_ns,
                                       std::uint64_t end_ns, std::uint32_t thread);

// Nothing where it is not known what all of the communication was for. `tells_data`: data_ns says something.
[[nodiscard]] std::optional<StepTermTimes> step_terms(const StepShares& shares, bool tells_data);

struct TimedStep {
  std::uint64_t epoch = 0;
  std::int64_t step = 0;
  std::uint64_t busy_ns = 0;
  std::optional<StepTermTimes> terms;
};

class StepPasses final {
 public:
  // Steps of an epoch that are timed: from the fourth, when warm-up is over, and so many.
  static constexpr int kFirst = 4;
  static constexpr int kSteps = 16;

  // The epoch that runs before any `switch` range is seen.
  void begin_epoch(std::uint64_t epoch);
  void add(const RangeRecord& record);
  // No range was recorded until then: a step that began before is not whole.
  void ranges_left_out(std::uint64_t until_ns) {
    left_out_until_ns_ = std::max(left_out_until_ns_, until_ns);
    forget_intervals();
  }
  // The kernels of a pass that was added, whole.
  void add_device_time(const RangeRecord& pass, std::uint64_t device_ns);
  // Where a step that was added went on the device.
  void add_shares(const StepShares& shares, bool tells_data);
  // Ranges measure the host only, from the first step on.
  void on_device() { on_device_ = true; }
  // Timed since the last call. `shared_until`: shares of a step that ended before have come, or never will.
  [[nodiscard]] std::vector<TimedStep> take(std::uint64_t shared_until = ~std::uint64_t{0});

 private:
  struct Step {
    TimedStep timed;
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
    std::size_t passes = 0;
    std::size_t device_passes = 0;
    std::uint64_t device_ns = 0;
  };
  static constexpr std::size_t kMostWaiting = 64;         // steps, for their kernels
  static constexpr std::size_t kMostIntervals = 1 << 16;  // of a step's passes, and of the rest

  [[nodiscard]] bool times_next() const { return steps_ + 1 >= kFirst && steps_ + 1 < kFirst + kSteps; }
  void end_step(const RangeRecord& step);
  void forget_intervals();

  std::uint64_t epoch_ = 0;
  int steps_ = 0;  // of this epoch
  bool on_device_ = false;
  bool overlapped_ = false;  // some pass since the last step
  std::uint64_t left_out_until_ns_ = 0;
  std::vector<StepInterval> intervals_;
  std::size_t passes_ = 0;  // of them
  std::size_t waits_ = 0;
  std::deque<Step> waiting_;
  std::vector<TimedStep> done_;
};

}  // namespace trimtab::agent
