#pragma once

// Keeps collecting under its share of the wall time, in every ten seconds from the first launch on: nothing is saved up
// and nothing is lent. It begins with short samples of kernels, before it knows what they cost, and records more as
// that is known: samples as often as the share allows, and all kernels where those need clearly less. A sample begins
// only if what it will cost fits into the window, and ends when that is used up. Where collectives alone are too dear,
// too, nothing is recorded. Going down is immediate. Going up waits, twice as long whenever it did not last.
//
// What it is told lags: CUPTI hands records over when a buffer is full or at a flush. So it charges a sample at once by
// the rate that it knows, and sets that right when the records have come. A job whose launches become far more frequent
// while all its kernels are recorded is noticed with the next full buffer. Pure: time is an argument.

#include <cstdint>

#include "cost_window.hpp"
#include "schema/record.hpp"

namespace trimtab::inject::cupti {

struct BudgetOptions {
  double share = 0.005;                    // 1: everything is recorded, whatever it costs
  std::uint64_t hold_ns = 10'000'000'000;  // before going up
  std::uint64_t longest_hold_ns = 960'000'000'000;
};

// Counts since the collector began.
struct BudgetSample {
  std::uint64_t now_ns = 0;  // monotonic
  std::uint64_t cost_ns = 0;
  std::uint64_t recording_ns = 0;  // how long kernels have been recorded
  std::uint64_t ring_drops = 0;    // records that found the ring full: the agent does not keep up
  std::uint64_t kernels = 0;       // whose records have come
  bool settled = false;            // nothing is recorded now, and all records have come
};

class BudgetController {
 public:
  static constexpr double kMostDuty = 0.5;
  static constexpr double kLeastPressure = 1.0 / 64;
  // No recording takes more of the time than this while it is not known: launches at most double.
  static constexpr double kUnknownRate = 0.5;

  constexpr explicit BudgetController(const BudgetOptions& options = {})
      : options_(options),
        level_(options.share >= 1 ? record::kDetailAll : record::kDetailSampled),
        hold_ns_(options.hold_ns) {}

  // Call it about once a second, and every tenth while kernels are recorded.
  void update(const BudgetSample& sample);

  [[nodiscard]] record::Detail level() const { return level_; }
  // The part of the time in which kernels are to be recorded, at kDetailSampled.
  [[nodiscard]] double duty() const;
  // How long recording may go on from now before the window is used up, as of the last update(); and in a window of
  // which nothing is used.
  [[nodiscard]] std::uint64_t allowance_ns() const { return allowance_ns(used()); }
  [[nodiscard]] std::uint64_t whole_allowance_ns() const { return allowance_ns(0); }
  // The level is so new that what it costs has to be looked at often.
  [[nodiscard]] bool is_new(std::uint64_t now_ns) const { return now_ns - changed_ns_ < CostWindow::kWindowNs; }
  // Cost in seconds per second of recording; kUnknownRate before anything was recorded.
  [[nodiscard]] double rate() const { return rated_ ? rate_ : kUnknownRate; }

 private:
  void charge(const BudgetSample& sample);
  void note_rate(const BudgetSample& sample, double cost, double recorded);
  [[nodiscard]] std::uint64_t allowance_ns(double used) const;
  void note_pressure(const BudgetSample& sample);
  [[nodiscard]] bool may_rise() const;
  [[nodiscard]] record::Detail wanted() const;
  void change(record::Detail level);
  [[nodiscard]] double used() const;  // of the window's share
  [[nodiscard]] double used_since_change() const;
  [[nodiscard]] bool unlimited() const { return options_.share >= 1; }

  BudgetOptions options_;
  CostWindow window_;
  std::uint64_t spent_ns_ = 0;  // in the window, as of the last update
  record::Detail level_;
  double pressure_ = 1;  // lowers the duty while the ring overflows
  bool rated_ = false;
  double rate_ = 0;
  double unrated_cost_ = 0;  // seconds, since rate_ was last measured
  double unrated_recorded_ = 0;
  std::uint64_t unrated_since_ = 0;  // kernels
  double owed_ = 0;                  // seconds that were charged for recording whose records are still to come
  std::uint64_t hold_ns_;
  std::uint64_t changed_ns_ = 0;
  std::uint64_t changed_cost_ns_ = 0;  // what had been spent by then
  std::uint64_t raised_ns_ = 0;        // 0: never
  int overflows_ = 0;                  // updates with drops in a row
  BudgetSample last_;
  bool started_ = false;
};

// When kernels are recorded, at a duty below one: a part of every cycle, and whole training steps where the job tells
// them (ranges named "step"). Recording begins somewhere within a step, so a phase lasts until two steps have ended:
// the second was recorded whole. A phase never lasts longer than it is allowed to, and waits until it may last two
// steps, where a window affords those at all. Pure: time is an argument.

struct SamplerOptions {
  std::uint64_t cycle_ns = 2'000'000'000;          // of which the duty's part is recorded
  std::uint64_t longest_phase_ns = 5'000'000'000;  // with steps; a job whose steps are longer is sampled in parts
  std::uint64_t least_phase_ns = 5'000'000;        // what is allowed less is not begun
  std::uint64_t steps = 2;
};

// What a phase may last, as of now and at most.
struct PhaseLimits {
  double duty = 0.5;
  std::uint64_t allowed_ns = ~std::uint64_t{0};
  std::uint64_t whole_ns = ~std::uint64_t{0};
};

class StepSampler {
 public:
  constexpr explicit StepSampler(const SamplerOptions& options = {}) : options_(options) {}

  // Whether kernels are to be recorded from now on. `steps`: how many have ended.
  bool update(const PhaseLimits& limits, std::uint64_t now_ns, std::uint64_t steps);
  // When update() will say something new, if no step ends before; the caller sleeps until then.
  [[nodiscard]] std::uint64_t next_ns() const { return until_ns_; }
  // Begins with a phase of recording at the next update().
  void restart() { started_ = false; }

 private:
  [[nodiscard]] std::uint64_t part_ns(const PhaseLimits& limits) const {
    return static_cast<std::uint64_t>(limits.duty * static_cast<double>(options_.cycle_ns));
  }
  [[nodiscard]] bool goes_on(const PhaseLimits& limits, std::uint64_t now_ns, std::uint64_t steps);
  [[nodiscard]] std::uint64_t needed_ns(const PhaseLimits& limits, std::uint64_t now_ns, std::uint64_t steps);

  SamplerOptions options_;
  bool started_ = false;
  bool recording_ = false;
  std::uint64_t began_ns_ = 0;
  std::uint64_t until_ns_ = 0;
  std::uint64_t longest_ns_ = 0;  // that the phase lasts if no step ends
  std::uint64_t first_step_ = 0;
  std::uint64_t idle_since_ns_ = 0;  // between phases
  std::uint64_t idle_steps_ = 0;     // that had ended by then
};

}  // namespace trimtab::inject::cupti
