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
#include "schema/job_without_plan.hpp"
#include "tuning/change/learning_watch.hpp"
#include "tuning/change/stop_record.hpp"
#include "tuning/elastic/elastic_state.hpp"
#include "tuning/event.hpp"
#include "tuning/hardware/hardware_state.hpp"
#include "tuning/launch/launch_state.hpp"
#include "tuning/search/planning.hpp"
#include "tuning/search/profiling.hpp"
#include "tuning/search/search_requests.hpp"
#include "tuning/trial/comparison.hpp"
#include "tuning/trial/overhead.hpp"
#include "tuning/trial/racing.hpp"
#include "tuning/trial/trial_records.hpp"

namespace trimtab::coordinator {

struct LossAt {
  std::int64_t step = 0;
  double loss = 0;
  std::string samples;
};

struct TuningState : LaunchState, TrialRecords {
  Job job;
  bool watched = false;      // its user launched it: it is never started, steered or ended
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
  ClusterText cluster;
  std::string fingerprint;
  std::string model_json;

  ProfilingState profiling;

  HardwareState hardware;
  ElasticState elastic;
  std::int32_t ranks = 0;  // once nodes were lost for good; 0 = the job's world size
  std::string calibration_json;
  std::string earlier_calibration_json;  // what earlier jobs learnt: where this one's learning begins
  SearchCounts search;
  std::string explanation;
  Spending spent;

  std::int64_t step = 0;
  double loss = 0;
  double step_ms = 0;
  std::vector<LossAt> losses;          // of the job's first steps
  std::vector<LossAt> untuned_losses;  // of the run apart
  std::string loss_note;
  StopRecord stops;               // of a job that is restarted
  LearningWatch learning;         // of the own steps of a job that is restarted
  std::int64_t spoilt_step = -1;  // the first under a plan that spoilt them, until the job runs without it; -1 = none

  // A step of all ranks, of the job itself.
  void take(const JobStep& whole);
  [[nodiscard]] std::int32_t world_size() const { return ranks > 0 ? ranks : job.world_size; }
  [[nodiscard]] std::int64_t remaining_steps() const { return job.steps - step; }
  [[nodiscard]] std::vector<std::uint32_t> ranks_of(const std::string& node) const;
  // Empty where no node has the rank.
  [[nodiscard]] std::string node_of(std::int32_t rank) const;
  [[nodiscard]] bool is_restarted() const { return job.delivery == Delivery::kRestart; }
  [[nodiscard]] bool has_no_plan() const { return watched || (tune && trimtab::has_no_plan(job)); }
  [[nodiscard]] bool is_submitted() const { return !job.submit.empty(); }
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
// The same in two parts: what may be megabytes and stays as it is once it is there (the job as it was handed in, and
// its model), and the rest. Only of a job that is watched the first changes, and is small.
[[nodiscard]] std::string lasting_json(const TuningState& state);
[[nodiscard]] std::string changing_json(const TuningState& state);
// Of the whole, or of both parts. kNo: the first is missing.
[[nodiscard]] Result<TuningState> parse_tuning_state(std::string_view json, std::string_view lasting = "");
// Probes as a fact in the cost database, beside the costs that were measured when the hardware was so.
[[nodiscard]] std::string to_json(const std::vector<Probe>& probes);
[[nodiscard]] Result<std::vector<Probe>> parse_probes(std::string_view json);

}  // namespace trimtab::coordinator
