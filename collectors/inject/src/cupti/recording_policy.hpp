#pragma once

// When kernels are recorded, and in what detail: the budget, its samples, and what recording is measured to cost, as
// one decision. The collector carries it out and tells what came of it. Pure: time and counts are arguments, so a
// simulated job drives the same code (tests/collectors/recording_policy_test.cpp). One thread.

#include "budget_controller.hpp"
#include "own_cost.hpp"

namespace trimtab::inject::cupti {

// Counts since the collector began.
struct RecordingState {
  std::uint64_t now_ns = 0;      // monotonic
  std::uint64_t cost_ns = 0;     // of all collecting
  std::uint64_t base_ns = 0;     // of it, records by the settings' constants, without the factor
  std::uint64_t kernels = 0;     // whose records have come
  std::uint64_t ring_drops = 0;  // records that found the ring full
  std::uint64_t steps = 0;       // that have ended
};

class RecordingPolicy {
 public:
  static constexpr std::uint64_t kTurnNs = 100'000'000;    // between decisions while kernels are recorded
  static constexpr std::uint64_t kSettleNs = 300'000'000;  // what was launched before a phase's end has run by then

  constexpr RecordingPolicy() = default;

  void begin(double share) {
    share_ = share;
    budget_ = BudgetController({.share = share});
  }

  // A training step ended then; in order of their ends, and before the decision that follows it.
  void step_ended(std::uint64_t now_ns) { own_cost_.step_ended(now_ns); }
  void steps_missed() { own_cost_.steps_missed(); }
  // Kernels are recorded from now on, or no longer.
  void recorded(bool on, const RecordingState& state);
  // CUPTI has handed over what was complete.
  void flushed(const RecordingState& state);

  enum class Record : std::uint8_t { kAll, kNotNow, kTooDear };
  // `asked`: somebody wants everything now, whatever it costs.
  Record decide(const RecordingState& state, bool asked);
  // Counts the cost, where nothing can be recorded.
  void keep_budget(const RecordingState& state);

  [[nodiscard]] record::Detail level() const { return budget_.level(); }
  // The decision changes when a step ends.
  [[nodiscard]] bool waits_for_steps() const { return waits_for_steps_; }
  // When the decision may change, if no step ends before.
  [[nodiscard]] std::uint64_t due_ns(std::uint64_t now_ns) const;
  // By how much more a record costs than the constants say.
  [[nodiscard]] double cost_factor() const { return share_ < 1 ? own_cost_.factor() : 1; }
  [[nodiscard]] const OwnCost& own_cost() const { return own_cost_; }
  [[nodiscard]] const BudgetController& budget() const { return budget_; }

 private:
  double share_ = 0.005;
  BudgetController budget_;
  StepSampler sampler_;
  OwnCost own_cost_;
  StepsLeftOut left_out_;
  bool on_ = false;
  bool sampling_ = false;
  bool waits_for_steps_ = false;
  std::uint64_t on_since_ns_ = 0;
  std::uint64_t recorded_ns_ = 0;
  std::uint64_t paused_ns_ = 0;  // when recording last ended
  bool settled_ = true;          // what was recorded until then has come
  std::uint64_t phase_base_ns_ = 0;
  std::uint64_t phase_kernels_ = 0;
};

}  // namespace trimtab::inject::cupti
