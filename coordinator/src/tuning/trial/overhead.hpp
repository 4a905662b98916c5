#pragma once

// What trials, the final comparison and growth cost the job: each change of plan, each step beyond the incumbent's.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "tuning/launch/step_assembly.hpp"
#include "tuning/trial/interleaving.hpp"

namespace trimtab::coordinator {

struct Trial;
struct View;

// What survives the coordinator, beside what each trial has cost.
struct Spending {
  // What the comparisons cost beyond the adopted plan's steps, as a trial's; and launches on more nodes and back.
  double comparison_changes_ms = 0;
  double comparison_excess_ms = 0;
  double growth_ms = 0;
  double dearest_change_ms = 0;  // the most that a trial's change of plan has cost, the warm-up after it included
  double trained_ms = 0;         // what the job's steps up to now have really taken
};

class Overhead {
 public:
  Overhead(Spending& spent, std::vector<Trial>& trials, const View& view)
      : spent_(spent), trials_(trials), view_(view) {}

  // A step of a trial or of the comparison, warm-up included: what it took beyond the incumbent's. The incumbent's own
  // measured steps are the job's, and cost nothing. Steps that are thrown away cost all that they take. True when the
  // step has cost something.
  [[nodiscard]] bool add_block_step(const JobStep& step, const Interleaving& blocks);
  // A step outside of the blocks: of another plan while the next one is agreed on, or of the incumbent, just returned
  // to.
  void add_step_between(const JobStep& step);
  // What the step adds to the job's time, and those before it that nobody has told of.
  void add_training(const JobStep& step);
  // A launch goes on from a snapshot: its first steps were trained before.
  void add_lost_steps(std::int64_t first);
  // Ranks stood still for nodes that joined, for the comparison and the way back from it, or for a trial that goes on
  // or has just ended.
  void add_change(double ms);
  // What a change of plan has cost up to now, the incumbent's warm-up after it included.
  void learn_change(double ms);
  // Of nodes that joined and did not stay: their plan's steps.
  void add_growth(double ms) { spent_.growth_ms += ms; }

  void begin_block() { way_back_steps_ = 0; }
  // The ranks are back on the incumbent, which warms up.
  void come_back(std::int32_t warmup_steps) { way_back_steps_ = warmup_steps; }
  // Ranks crash or are restarted in a trial, until they run again.
  void stand_still();
  void run_again();
  // Steps that are run again from here on are the last trial's doing.
  void blame_trial(bool for_lost_steps) { trial_lost_steps_ = for_lost_steps; }
  // Until the ranks are back on the incumbent.
  void leave_comparison(bool leaves) { leaves_comparison_ = leaves; }
  // A launch on more nodes, or back from them, is under way.
  void begin_growth();
  // Nodes are gone for good: no trial has cost that time.
  void begin_anew();

 private:
  [[nodiscard]] double* excess_ms();

  Spending& spent_;
  std::vector<Trial>& trials_;
  const View& view_;
  std::optional<Nanoseconds> idle_since_;
  bool trial_lost_steps_ = false;
  bool leaves_comparison_ = false;
  bool grows_ = false;
  std::int32_t way_back_steps_ = 0;  // of the warm-up after the way back from a trial, still to come
  double last_change_ms_ = 0;        // what the last change of plan has cost
};

}  // namespace trimtab::coordinator
