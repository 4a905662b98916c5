#pragma once

// Everything about a job that must survive the coordinator: the tuning machine's persisted part. A plain value, to and
// from JSON. What is not here (acknowledgements, half-measured blocks) is abandoned by a restart, on purpose.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/api/phase.hpp"
#include "schema/job.hpp"
#include "tuning/change/learning_watch.hpp"
#include "tuning/elastic/elastic_state.hpp"
#include "tuning/event.hpp"
#include "tuning/hardware/hardware_state.hpp"
#include "tuning/launch/command_tag.hpp"
#include "tuning/launch/crash_budget.hpp"
#include "tuning/search/planning.hpp"
#include "tuning/search/profiling.hpp"
#include "tuning/search/search_requests.hpp"
#include "tuning/trial/comparison.hpp"
#include "tuning/trial/overhead.hpp"
#include "tuning/trial/racing.hpp"
#include "tuning/trial/trial_records.hpp"

namespace trimtab::coordinator {

// What follows once the ranks of the current launch are dead.
enum class AfterKill { kRelaunch, kUntuned, kFinish, kFail, kStop, kRestart, kHalt };

// Of launches that try a plan, where the job is restarted to change it; their scratch is apart.
inline constexpr std::string_view kTrialVariant = "trial";

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

struct TuningState : TrialRecords {
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

  ProfilingState profiling;

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

  HardwareState hardware;
  std::int64_t measured_step = 0;  // when the plan was measured that tuning began from
  ElasticState elastic;
  double launch_ms = 0;    // what the last launch took, until its first step
  std::int32_t ranks = 0;  // once nodes were lost for good; 0 = the job's world size
  std::string calibration_json;
  std::string earlier_calibration_json;  // what earlier jobs learnt: where this one's learning begins
  SearchCounts search;
  std::string explanation;
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
  Spending spent;

  std::int64_t step = 0;
  double loss = 0;
  double step_ms = 0;
  std::vector<LossAt> losses;          // of the job's first steps
  std::vector<LossAt> untuned_losses;  // of the run apart
  std::string loss_note;
  LearningWatch learning;         // of the own steps of a job that is restarted
  std::int64_t spoilt_step = -1;  // the first under a plan that spoilt them, until the job runs without it; -1 = none

  [[nodiscard]] std::int32_t world_size() const { return ranks > 0 ? ranks : job.world_size; }
  [[nodiscard]] std::int64_t remaining_steps() const { return job.steps - step; }
  [[nodiscard]] std::vector<std::uint32_t> ranks_of(const std::string& node) const;
  [[nodiscard]] bool is_outstanding(CommandKind kind) const;
  [[nodiscard]] bool is_restarted() const { return job.delivery == Delivery::kRestart; }
  [[nodiscard]] bool is_submitted() const { return !job.submit.empty(); }
  // The current launch is one that tries a plan.
  [[nodiscard]] bool runs_trial() const { return launch_variant == kTrialVariant; }
  [[nodiscard]] bool has_ranks() const;
  // No step takes longer than ranks may be silent before they count as hung.
  [[nodiscard]] bool believes(double wall_ms) const;
  // Those there are, if any, are being ended.
  [[nodiscard]] bool wants_no_ranks() const { return doing == Doing::kKilling || doing == Doing::kHalted; }
  // Nothing follows the end of the ranks: it is not waited for on nodes that are away.
  [[nodiscard]] bool ends() const;
  // What the ranks are about was begun for a trial or the comparison, the way back to the incumbent included.
  [[nodiscard]] bool is_about_trial() const;
  // Costs are measured once more, on other hardware than they were.
  [[nodiscard]] bool profiles_anew() const { return phase == Phase::kProfiling && !incumbent.empty(); }
  // The job was begun anew on more nodes, and that is not settled.
  [[nodiscard]] bool has_grown() const { return !elastic.before.nodes.empty(); }
  // What the adopted plan is compared with at the end: the initial one, or the one that tuning again began from.
  [[nodiscard]] bool compares_initial() const { return retuned_from.plan.empty(); }
  [[nodiscard]] const PlanText& compared_plan() const { return compares_initial() ? initial : retuned_from.plan; }
  [[nodiscard]] std::string compared_word() const { return compares_initial() ? "initial" : "former"; }
  // A new epoch, of this plan. Old ones that no rank can run any more are forgotten.
  std::uint64_t begin_epoch(const std::string& plan_hash);
  // Of the plan of an epoch; null = of no plan that is known.
  [[nodiscard]] const std::string* hash_of(std::uint64_t epoch) const;
  // What the machine is about, in a few words.
  [[nodiscard]] std::string purpose() const;
  // What was measured was of other hardware; what was learnt about costs stays.
  void forget_measurements();
  // As it runs now: with the world size that nodes which were lost have left.
  [[nodiscard]] Job running_job() const;
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
};

[[nodiscard]] std::string to_json(const TuningState& state);
[[nodiscard]] Result<TuningState> parse_tuning_state(std::string_view json);
// Probes as a fact in the cost database, beside the costs that were measured when the hardware was so.
[[nodiscard]] std::string to_json(const std::vector<Probe>& probes);
[[nodiscard]] Result<std::vector<Probe>> parse_probes(std::string_view json);

}  // namespace trimtab::coordinator
