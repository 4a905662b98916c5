#pragma once

// Everything about a job that must survive the coordinator: the tuning machine's persisted part. A plain value, to and
// from JSON. What is not here (acknowledgements, half-measured blocks) is abandoned by a restart, on purpose.

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/api/phase.hpp"
#include "schema/job.hpp"
#include "tuning/comparison.hpp"
#include "tuning/crash_budget.hpp"
#include "tuning/event.hpp"
#include "tuning/learning_watch.hpp"
#include "tuning/planning.hpp"
#include "tuning/racing.hpp"
#include "tuning/trial_history.hpp"

namespace trimtab::coordinator {

enum class CommandKind { kDescribe, kBenchmark, kLaunch, kKill };
struct OutstandingCommand {
  std::string tag;
  std::string node;
  CommandKind kind = CommandKind::kDescribe;
};

// What follows once the ranks of the current launch are dead.
enum class AfterKill { kRelaunch, kUntuned, kFinish, kFail, kStop, kRestart, kHalt };

// Of launches that try a plan, where the job is restarted to change it; their scratch is apart.
inline constexpr std::string_view kTrialVariant = "trial";

struct Trial {
  std::int32_t id = 0;
  PlanText plan;
  TrialState state = TrialState::kProposed;
  std::string reason;   // of failed and rejected: "out_of_memory", "refused", "crash", "hang", "slower", …
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

// A plan that an adoption took the place of, as it was known then: what the job goes back to when the adopted one
// fails.
struct Replaced {
  PlanText plan;
  Predicted predicted;
  Measured measured;
};

struct LossAt {
  std::int64_t step = 0;
  double loss = 0;
  std::string samples;
};

// The incumbent's step time has changed for good; or it has not, and a look at the hardware found what got faster.
struct Drift {
  std::string plan_hash;  // of the incumbent that it was noticed under
  std::int64_t since_step = 0;
  std::int64_t noticed_step = 0;
  double before_ms = 0;
  double after_ms = 0;
  bool by_look = false;             // before_ms and after_ms are the same
  std::string during;               // "trial 3", what the job was about when it was noticed; empty = it trained
  bool handled = false;             // probed, and tuned again where that is wanted
  bool links = false;               // probes found links that have changed
  bool devices = false;             // … devices
  std::string what;                 // both in words; empty = not known
  std::string stale;                // the costs that it has made wrong, in words
  std::int32_t trials_before = -1;  // ids up to here measured the machine as it was; -1 = not tuned again
  bool kept = false;                // tuned again for it, which ended with the plan that it was noticed under
  Ratio gained_before;              // by the tuning that it ended; 1 = nothing
};

// The best plan for one node fewer, as far as is known now.
struct Spare {
  PlanText plan;
  Predicted predicted;
  std::string cluster_json;  // that it is for
};

// The job went on with fewer nodes, or with more.
struct Resize {
  std::int64_t step = 0;
  std::string lost;  // nodes
  std::int32_t devices = 0;
  std::string plan_hash;
  std::string joined = {};          // nodes
  std::string outcome = {};         // of joined ones: "kept", "left: why"; empty = not known yet
  std::int32_t trials_before = -1;  // ids up to here were of the devices before
};

// What the job ran on before it was begun anew on more nodes; without nodes: it was not.
struct Before {
  std::vector<NodeShare> nodes;
  std::string cluster_json;
  std::int32_t ranks = 0;
  PlanText plan;
  Predicted predicted;
  Measured measured;
  std::map<std::int32_t, double> slow_devices;
};

// One point of "how good a plan had been found by when".
struct Convergence {
  double seconds = 0;
  std::uint64_t evaluations = 0;
  std::int32_t trial = 0;
  double best_measured_ms = 0;
  double best_predicted_ms = 0;
};

struct TuningState {
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  Job job;
  std::string tenant = "*";  // whose it is (net/tokens.hpp); "*": nobody's in particular
  bool tune = true;          // false: profiling only
  Phase phase = Phase::kWaiting;
  Doing doing = Doing::kNothing;
  bool frozen = false;
  bool stop_asked = false;
  std::string failure;     // why the phase is kFailed, or the job is halted
  std::string conclusion;  // why tuning ended
  std::string recommendation_json;
  std::int64_t begun_wall_ns = 0;
  std::int64_t phase_wall_ns = 0;  // when the phase was entered
  std::int64_t tuned_wall_ns = 0;
  std::int64_t finished_wall_ns = 0;

  std::vector<NodeShare> nodes;
  std::string cluster_json;
  std::string fingerprint;
  std::string model_json;

  // Profiling.
  std::vector<std::string> requests;  // what is left to measure, as documents
  std::vector<std::int32_t> request_sizes;
  std::int32_t request_next = 0;
  std::int32_t costs_reused = 0;
  std::int32_t costs_wanted = 0;
  std::int32_t costs_missing = 0;
  std::int64_t profiling_ns = 0;

  // Plans and their epochs.
  PlanText initial;
  PlanText incumbent;
  Predicted initial_predicted;
  Predicted incumbent_predicted;
  Measured initial_measured;
  Measured incumbent_measured;
  std::vector<Replaced> replaced;  // by the adoptions that led to the incumbent, the latest last
  PairNoise noise;
  std::map<std::uint64_t, std::string> epoch_hashes;  // of the latest epochs
  std::uint64_t last_epoch = 0;
  std::uint64_t committed_epoch = 0;  // the last that was launched with, or committed: what ranks may yet switch to

  // The current launch.
  std::uint64_t launch = 0;
  std::uint64_t launch_epoch = 0;
  PlanText launch_plan;
  std::string launch_variant;
  bool launch_fresh = true;
  std::int64_t launch_steps = 0;
  std::vector<OutstandingCommand> outstanding;
  AfterKill after_kill = AfterKill::kRelaunch;
  std::int32_t relaunches = 0;        // of the untuned run; of a submitted job after interruptions, in a row
  std::int64_t interrupted_step = 0;  // the latest of these
  std::vector<Crash> crashes;         // of the job's own launches, the recent ones

  std::vector<Trial> trials;  // those that are kept (trial_history.hpp), the latest last
  ForgottenTrials forgotten;
  std::vector<PassedOver> passed_over;
  std::vector<MeasuredPlan> observations;
  std::vector<std::string> failed_hashes;
  std::vector<std::string> hung_hashes;         // since costs last changed
  std::vector<Drift> drifts;                    // the latest
  std::int64_t retuned_step = 0;                // when the job was last tuned again
  std::int64_t retune_wait = 0;                 // the steps from then on in which it is not; 0 = it has not been yet
  std::int32_t trials_before_drift = 0;         // ids up to here: what they measured was of another machine
  std::int64_t measured_step = 0;               // when the plan was measured that tuning began from
  std::vector<Probe> first_probes;              // when the costs were those that were measured
  std::int64_t first_probed_step = 0;           // when that was; 0 = before this job
  std::vector<Probe> last_probes;               // what is known: those of the last drift, else the first
  std::string probed_plan_hash;                 // of the incumbent that ran then
  std::map<std::int32_t, double> slow_devices;  // how fast, beside those that costs were measured on as they were
  std::string costs_hardware;                   // the fingerprint of those, without the job's software
  // Nodes whose devices are not those that costs were measured on, and have not been probed since; and what ranks there
  // took in training, on devices as fast as those that costs were measured on.
  std::vector<std::string> unprobed_nodes;
  std::vector<Probe> expected_there;
  Spare spare;
  std::vector<Resize> resizes;
  Before before;
  std::string other_hardware;             // nodes that came back as such and have not been measured since
  bool unprofiled = false;                // no node is of the hardware any more that costs were measured on
  double launch_ms = 0;                   // what the last launch took, until its first step
  std::int32_t ranks = 0;                 // once nodes were lost for good; 0 = the job's world size
  std::int32_t trials_before_resize = 0;  // ids up to here: their plans are for more devices than there are
  std::string calibration_json;
  std::string earlier_calibration_json;  // what earlier jobs learnt: where this one's learning begins
  std::uint64_t searches = 0;
  std::uint64_t evaluations = 0;
  double search_seconds = 0;
  std::string explanation;
  std::vector<Convergence> convergence;
  std::int32_t comparisons_begun = 0;
  Measured final_initial;
  Measured final_adopted;
  Ratio final_ratio;
  bool compared = false;
  // The incumbent that tuning again began from, and what is adopted since beside it; without a plan: the job was not
  // tuned again, on the nodes that it has.
  Replaced retuned_from;
  std::int32_t trials_before_tuning = 0;  // ids up to here were made before tuning last began
  Ratio retuned_ratio;
  bool retuned_compared = false;
  // What the comparisons cost beyond the adopted plan's steps, as a trial's; and launches on more nodes and back.
  double comparison_changes_ms = 0;
  double comparison_excess_ms = 0;
  double growth_ms = 0;
  double looks_ms = 0;           // what steps took longer while the hardware was looked at in training
  double dearest_look_ms = 0;    // the most of these that one look took
  double dearest_change_ms = 0;  // the most that a trial's change of plan has cost, the warm-up after it included

  std::int64_t step = 0;
  double trained_ms = 0;  // what the job's steps up to now have really taken
  double loss = 0;
  double step_ms = 0;
  std::vector<LossAt> losses;          // of the job's first steps
  std::vector<LossAt> untuned_losses;  // of the run apart
  std::string loss_note;
  LearningWatch learning;         // of the own steps of a job that is restarted
  std::int64_t spoilt_step = -1;  // the first under a plan that spoilt them, until the job runs without it; -1 = none

  [[nodiscard]] bool has_trial() const;  // the last trial is still going on
  [[nodiscard]] std::int32_t world_size() const { return ranks > 0 ? ranks : job.world_size; }
  // A new epoch, of this plan. Old ones that no rank can run any more are forgotten.
  std::uint64_t begin_epoch(const std::string& plan_hash);
  // As it runs now: with the world size that nodes which were lost have left.
  [[nodiscard]] Job running_job() const;
  // Ids count from 1.
  [[nodiscard]] std::int32_t trials_begun() const { return trials.empty() ? 0 : trials.back().id; }
  // Since the last drift.
  [[nodiscard]] std::int32_t trials_made() const { return trials_begun() - trials_before_drift; }
  // What was tried before a step may be tried again; without one, whatever was tried.
  void begin_trials_anew(std::int64_t since_step = kNever);
  // The time that the job's steps will have taken if nothing better than the incumbent is found; or if those that are
  // left take `pace_ms` each.
  [[nodiscard]] double job_ms() const { return job_ms(incumbent_measured.mean_ms); }
  [[nodiscard]] double job_ms(double pace_ms) const;
  // What trials, comparisons, growth and looks have cost so far, and what they may.
  [[nodiscard]] double overhead_ms() const;
  // Of the time that the job takes; 0 before its first step.
  [[nodiscard]] double overhead_share() const { return job_ms() > 0 ? overhead_ms() / job_ms() : 0; }
  [[nodiscard]] double allowed_overhead_ms() const { return allowed_overhead_ms(incumbent_measured.mean_ms); }
  [[nodiscard]] double allowed_overhead_ms(double pace_ms) const;
  // A plan that failed through nobody's fault (a restart, a lost agent) may be tried once more.
  [[nodiscard]] bool was_tried(const std::string& plan_hash) const;
};

[[nodiscard]] std::string to_json(const TuningState& state);
[[nodiscard]] Result<TuningState> parse_tuning_state(std::string_view json);
// Probes as a fact in the cost database, beside the costs that were measured when the hardware was so.
[[nodiscard]] std::string to_json(const std::vector<Probe>& probes);
[[nodiscard]] Result<std::vector<Probe>> parse_probes(std::string_view json);

}  // namespace trimtab::coordinator
