#pragma once

// The trials of a job, what they have measured and what is not tried any more: the persisted part of Trials. A plain
// value.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "schema/api/phase.hpp"
#include "tuning/change/switch_phases.hpp"
#include "tuning/search/planning.hpp"
#include "tuning/trial/comparison.hpp"
#include "tuning/trial/failure_reason.hpp"
#include "tuning/trial/trial_history.hpp"

namespace trimtab::coordinator {

struct Trial {
  std::int32_t id = 0;
  PlanText plan;
  TrialState state = TrialState::kProposed;
  Reason reason;        // of failed and rejected
  std::string message;  // for people
  Predicted predicted;
  // Where its steps went, by stage; empty = not known.
  std::vector<StepTerms> predicted_terms;
  std::vector<StepTerms> measured_terms;
  Measured incumbent;
  Measured measured;
  Ratio ratio;
  double switch_ms = 0;          // of the change to it that took longest
  SwitchPhases switch_phases{};  // of that change
  std::int64_t begun_step = 0;   // of the job
  std::int32_t steps = 0;        // spent on it, warm-up and incumbent's blocks included
  // What it cost beyond the incumbent's steps: changes of plan, new launches and steps that were lost and run again,
  // and what its steps and all warm-up took longer (less than 0: they were faster).
  double changes_ms = 0;
  double excess_ms = 0;
  std::int64_t break_even_steps = 0;  // of an adopted one: until the change has paid, at the lower bound of its gain
  double peak_bytes = 0;              // of one that ran out of memory: the rank that held most; 0 = unknown

  [[nodiscard]] double overhead_ms() const;
};

// A plan that the search offered and nobody ran.
struct PassedOver {
  PlanText plan;
  double predicted_ms = 0;
  std::string why;  // "differs from trial 2 …"
};

// One point of "how good a plan had been found by when".
struct Convergence {
  double seconds = 0;
  std::uint64_t evaluations = 0;
  std::int32_t trial = 0;
  double best_measured_ms = 0;
  double best_predicted_ms = 0;
};

struct TrialRecords {
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  std::vector<Trial> trials;  // those that are kept (trial_history.hpp), the latest last
  ForgottenTrials forgotten;
  std::vector<PassedOver> passed_over;
  std::vector<MeasuredPlan> observations;
  std::vector<std::string> failed_hashes;
  std::vector<std::string> hung_hashes;   // since costs last changed
  std::int32_t trials_before_drift = 0;   // ids up to here: what they measured was of another machine
  std::int32_t trials_before_resize = 0;  // ids up to here: their plans are for more devices than there are
  std::int32_t trials_before_tuning = 0;  // ids up to here were made before tuning last began
  std::vector<Convergence> convergence;

  [[nodiscard]] bool has_trial() const;  // the last trial is still going on
  // Ids count from 1.
  [[nodiscard]] std::int32_t trials_begun() const { return trials.empty() ? 0 : trials.back().id; }
  // Since the last drift.
  [[nodiscard]] std::int32_t trials_made() const { return trials_begun() - trials_before_drift; }
  // What was tried before a step may be tried again; without one, whatever was tried.
  void begin_trials_anew(std::int64_t since_step = kNever);
  // A plan that failed through nobody's fault (a restart, a lost agent) may be tried once more.
  [[nodiscard]] bool was_tried(const std::string& plan_hash) const;
};

}  // namespace trimtab::coordinator
