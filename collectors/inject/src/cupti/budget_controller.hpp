#pragma once

// Keeps collecting under its share of the wall time. A token bucket: every second earns the share, cost spends it, and
// the level of detail follows what is left: all kernels, kernels of sampled steps, collectives only, nothing. Going
// down is immediate; going up needs credit, a prediction that it will last, and a wait that doubles whenever it did
// not. Over any time T the cost is at most share * (T + kSavedSeconds), plus what one period at the higher level costs;
// of a debt, no more than kDebtSeconds' worth is paid back (starting CUDA under CUPTI costs seconds once). Pure: time
// is an argument.

#include <cstdint>

#include "schema/record.hpp"

namespace trimtab::inject::cupti {

struct BudgetOptions {
  double share = 0.005;
  std::uint64_t period_ns = 1'000'000'000;  // between decisions
  std::uint64_t hold_ns = 30'000'000'000;   // before going up
  std::uint64_t longest_hold_ns = 960'000'000'000;
};

// Counts since the collector began.
struct BudgetSample {
  std::uint64_t now_ns = 0;  // monotonic
  std::uint64_t cost_ns = 0;
  std::uint64_t recording_ns = 0;  // how long kernels have been recorded
  std::uint64_t ring_drops = 0;    // records that found the ring full: the agent does not keep up
};

class BudgetController {
 public:
  static constexpr double kSavedSeconds = 60;
  static constexpr double kDebtSeconds = 240;
  static constexpr double kLeastDuty = 1.0 / 64;
  static constexpr double kMostDuty = 0.5;

  constexpr explicit BudgetController(const BudgetOptions& options = {})
      : options_(options), hold_ns_(options.hold_ns) {}

  // Call it about once a period, or more often. True when the level or the duty has changed.
  bool update(const BudgetSample& sample);

  [[nodiscard]] record::Detail level() const { return level_; }
  // The part of the time in which kernels are to be recorded, at kDetailSampled.
  [[nodiscard]] double duty() const { return duty_; }

 private:
  void earn(const BudgetSample& sample, double seconds);
  void rate(double measured);
  void forget_rate();
  void note_pressure(const BudgetSample& sample);
  [[nodiscard]] record::Detail wanted() const;
  [[nodiscard]] record::Detail wanted_sampled() const;
  [[nodiscard]] double affordable_duty() const;
  void change(record::Detail level, std::uint64_t now_ns);
  [[nodiscard]] double saved() const { return options_.share * kSavedSeconds; }

  BudgetOptions options_;
  record::Detail level_ = record::kDetailAll;
  double duty_ = kMostDuty;
  double pressure_ = 1;      // lowers the duty while the ring overflows
  bool rated_ = false;       // rate_ has been measured since recording began anew
  double rate_ = 0;          // cost in seconds per second of recording, smoothed
  double unrated_cost_ = 0;  // seconds, since rate_ was last measured
  double unrated_recorded_ = 0;
  double credit_ = 0;      // seconds
  double last_share_ = 0;  // of the last period
  std::uint64_t hold_ns_;
  std::uint64_t changed_ns_ = 0;
  std::uint64_t raised_ns_ = 0;  // 0: never
  std::uint64_t now_ns_ = 0;
  int overflows_ = 0;  // periods with drops in a row
  BudgetSample last_;
  bool started_ = false;
};

// When kernels are recorded, at a duty below one: whole training steps where the job tells them (ranges named "step"),
// slices of time where it does not. Recording begins somewhere within a step, so a phase lasts until two steps have
// ended: the second was recorded whole. Pure: time is an argument.

struct SamplerOptions {
  std::uint64_t slice_ns = 250'000'000;            // without steps
  std::uint64_t longest_phase_ns = 5'000'000'000;  // with steps; a job whose steps are longer is sampled in parts
  std::uint64_t steps = 2;
};

class StepSampler {
 public:
  constexpr explicit StepSampler(const SamplerOptions& options = {}) : options_(options) {}

  // Whether kernels are to be recorded from now on. `steps` is how many have ended.
  bool update(double duty, std::uint64_t now_ns, std::uint64_t steps);
  // When update() will say something new, if no step ends before; the caller sleeps until then.
  [[nodiscard]] std::uint64_t next_ns() const { return until_ns_; }
  // Begins with a phase of recording at the next update().
  void restart() { started_ = false; }

 private:
  SamplerOptions options_;
  bool started_ = false;
  bool recording_ = false;
  std::uint64_t began_ns_ = 0;
  std::uint64_t until_ns_ = 0;
  std::uint64_t first_step_ = 0;
};

}  // namespace trimtab::inject::cupti
