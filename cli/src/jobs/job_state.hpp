#pragma once

// The coordinator's JSON about jobs as values. Missing fields keep their defaults: an older coordinator is no error.
// Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "jobs/switch_phases.hpp"
#include "schema/plan.hpp"

namespace trimtab::cli {

struct TrialState {
  std::int64_t id = 0;
  std::optional<Plan> plan;
  std::string state;
  std::string reason;
  std::string message;
  double predicted_ms = 0;
  double measured_ms = 0;  // 0 = not measured
  double incumbent_ms = 0;
  double switch_ms = 0;
  SwitchPhases switch_phases;         // empty = not told
  std::int64_t break_even_steps = 0;  // of an adopted one
  double ratio = 1;
  double ratio_low = 1;
  double ratio_high = 1;
};

struct JobState {
  std::string name;
  std::string phase;
  std::string doing;
  std::string mode;
  std::string held_by;          // why its plan stays as it is; empty = it need not
  std::string storage_failure;  // why its state cannot be stored, and orders wait; empty = it can
  std::string waits_for;        // why it has no nodes though there are some; empty = nothing is in its way
  bool active = true;
  bool report_complete = true;
  std::int64_t done = 0;  // progress; total 0 = not known
  std::int64_t total = 0;
  std::string what;
  std::int64_t step = 0;
  std::int64_t steps = 0;
  std::optional<double> loss;
  double step_ms = 0;
  std::int64_t trials = 0;
  double overhead_ms = 0;     // what tuning has cost beyond the incumbent's steps
  double overhead_share = 0;  // of the time that the job takes
  double allowed_share = 0;
  std::string failure;
  std::string conclusion;
  std::string incumbent_hash;
  std::optional<Plan> incumbent;
  std::optional<TrialState> trial;  // that is in progress, or awaits approval
};

// Tuning is over and the job trains on with the plan that it keeps.
[[nodiscard]] bool trains_on(const JobState& job);
// Its ranks crashed too often: nothing runs until it is handed in again.
[[nodiscard]] bool is_halted(const JobState& job);

struct JobEvent {
  std::int64_t sequence = 0;
  std::string kind;
  std::string text;
};

struct NodeState {
  std::string name;
  std::string state;
  std::int64_t devices = 0;
  std::int64_t memory_bytes = 0;
  std::string fingerprint;
  std::string release;
  bool kill_switch = false;  // thrown
  std::string tenant = "*";  // whose jobs alone run there; "*": everybody's
};

struct ClusterState {
  std::string release;
  double uptime_s = 0;
  std::vector<NodeState> nodes;
  std::vector<JobState> jobs;
};

[[nodiscard]] Result<JobState> parse_job_state(std::string_view json);
[[nodiscard]] Result<std::vector<JobEvent>> parse_events(std::string_view json);
[[nodiscard]] Result<std::vector<TrialState>> parse_trials(std::string_view json);
[[nodiscard]] Result<ClusterState> parse_cluster_state(std::string_view json);

}  // namespace trimtab::cli
