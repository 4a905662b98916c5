#pragma once

// The trials of a job, what they have measured and what is not tried any more: the persisted part of Trials. A plain
// value, which stays small however long the job is tuned.
//
// The latest trials are kept whole, and of the earlier ones those that something may still be asked of: the adopted
// ones whose plans the job runs or may go back to, the best measured one, and the latest that ran out of memory. Of the
// others the state keeps sums and hashes; the database has a row of each, without its plan.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "schema/api/phase.hpp"
#include "tuning/change/change_phases.hpp"
#include "tuning/search/planning.hpp"
#include "tuning/trial/comparison.hpp"
#include "tuning/trial/failure_reason.hpp"

namespace trimtab::coordinator {

struct TuningState;

inline constexpr std::size_t kTrialsKept = 32;         // the latest
inline constexpr std::size_t kOutOfMemoryKept = 16;    // the latest of the earlier ones
inline constexpr std::size_t kObservationsKept = 128;  // besides those of the initial plan and the incumbent
inline constexpr std::size_t kPassedOverKept = 64;
inline constexpr std::size_t kConvergenceKept = 512;  // then every other point goes
inline constexpr std::size_t kFailedHashesKept = 4096;

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
  std::vector<TermParts> measured_parts = {};  // of those
  Measured incumbent;
  Measured measured;
  Ratio ratio;
  double switch_ms = 0;          // of the change to it that took longest
  ChangePhases change_phases{};  // of that change
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

// Of the trials that the state has no more.
struct ForgottenTrials {
  std::int32_t adopted = 0;
  std::int32_t rejected = 0;
  std::int32_t failed = 0;
  double overhead_ms = 0;
  std::vector<std::string> tried;  // hashes of those since the last drift

  [[nodiscard]] std::int32_t count() const { return adopted + rejected + failed; }
};

// What the database still knows of one.
struct EarlierTrial {
  std::int32_t id = 0;
  std::string state;
  std::string reason;
  std::string plan_hash;
  double predicted_ms = 0;
  double measured_ms = 0;  // 0 = not measured
};

struct TrialRecords;
// Without those whose row was damaged, but which the job's state has.
[[nodiscard]] std::vector<EarlierTrial> without_kept(std::vector<EarlierTrial> earlier, const TrialRecords& records);

// A plan and what was known of it; one that an adoption took the place of is gone back to when the adopted one fails.
struct Replaced {
  PlanText plan;
  Predicted predicted;
  Measured measured;
};

struct TrialRecords {
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  std::vector<Trial> trials;  // those that are kept, the latest last
  ForgottenTrials forgotten;
  std::vector<PassedOver> passed_over;
  std::vector<MeasuredPlan> observations;
  std::vector<std::string> failed_hashes;
  std::vector<std::string> hung_hashes;   // since costs last changed
  std::int32_t trials_before_drift = 0;   // ids up to here: what they measured was of another machine
  std::int32_t trials_before_resize = 0;  // ids up to here: their plans are for more devices than there are
  std::int32_t trials_before_tuning = 0;  // ids up to here were made before tuning last began
  std::vector<Convergence> convergence;

  PlanText initial;
  PlanText incumbent;
  Predicted initial_predicted;
  Predicted incumbent_predicted;
  Measured initial_measured;
  Measured incumbent_measured;
  std::vector<Replaced> replaced;  // by the adoptions that led to the incumbent, the latest last
  PairNoise noise;
  std::int64_t measured_step = 0;  // when the plan was measured that tuning began from
  std::int32_t comparisons_begun = 0;
  Measured final_initial;
  Measured final_adopted;
  Ratio final_ratio;
  bool compared = false;
  // The incumbent that tuning again began from, and what is adopted since beside it; without a plan: the job was not
  // tuned again, on the nodes that it has.
  Replaced retuned_from;
  Ratio retuned_ratio;
  bool retuned_compared = false;

  // What the adopted plan is compared with at the end: the initial one, or the one that tuning again began from.
  [[nodiscard]] bool compares_initial() const { return retuned_from.plan.empty(); }
  [[nodiscard]] const PlanText& compared_plan() const { return compares_initial() ? initial : retuned_from.plan; }
  [[nodiscard]] std::string compared_word() const { return compares_initial() ? "initial" : "former"; }
  [[nodiscard]] bool has_trial() const;  // the last trial is still going on
  // Ids count from 1.
  [[nodiscard]] std::int32_t trials_begun() const { return trials.empty() ? 0 : trials.back().id; }
  // Since the last drift.
  [[nodiscard]] std::int32_t trials_made() const { return trials_begun() - trials_before_drift; }
  // What was tried before a step may be tried again; without one, whatever was tried.
  void begin_trials_anew(std::int64_t since_step = kNever);
  // A plan that failed through nobody's fault (a restart, a lost agent) may be tried once more.
  [[nodiscard]] bool was_tried(const std::string& plan_hash) const;
  // Whoever was to blame. A trial that was never begun has not failed.
  [[nodiscard]] bool has_failed_in_trial(const std::string& plan_hash) const;
};

// The trials that are forgotten, without their plans: for the database.
[[nodiscard]] std::vector<Trial> forget_old_trials(TuningState& state);

}  // namespace trimtab::coordinator
