#pragma once

// What a coordinator says of its cluster, its jobs and their trials, for people. Pure.

#include <string>
#include <vector>

#include "schema/api/history.hpp"
#include "schema/api/status.hpp"

namespace trimtab::cli {

// What a job without a plan runs (kAsLaunched).
inline constexpr std::string_view kAsLaunchedText = "as its user launched it";

// Tuning is over and the job trains on with the plan that it keeps.
[[nodiscard]] bool trains_on(const api::JobSummary& job);
// Its ranks crashed too often: nothing runs until it is handed in again.
[[nodiscard]] bool is_halted(const api::JobSummary& job);
// Nothing more will happen to it.
[[nodiscard]] bool is_over(const api::Trial& trial);

// "[########------------]  12/30": always the same width for the same `columns`.
[[nodiscard]] std::string progress_bar(std::int64_t done, std::int64_t total, int columns);
// One line: phase, bar, what is going on, step, step time and loss. Cut to `width`.
[[nodiscard]] std::string progress_line(const api::JobSummary& job, std::size_t width);
// "trial 2: microbatch 4; ...: predicted 512 ms, measured 530 ms beside 610 ms: adopted (1.15x, 1.11 to 1.19)".
[[nodiscard]] std::string trial_line(const api::Trial& trial);
// "3.2 s, 0.85 % of the time that the job takes (2 % are allowed)"; shares are fractions, and 0 allows any.
[[nodiscard]] std::string overhead_text(const api::Overhead& overhead);
// What a change of plan took: "214.5 ms, of which the snapshot 90 ms, moving state 40 ms".
[[nodiscard]] std::string change_text(double ms, const api::SwitchPhases& phases);
// Whether any part of it was told.
[[nodiscard]] bool is_told(const api::SwitchPhases& phases);

// "1.63× (95 % interval 1.12 to 2.37), as trial 1 measured it in turn".
[[nodiscard]] std::string gain_text(const api::Gain& gain);
[[nodiscard]] std::string describe(const api::ClusterStatus& cluster);
// One job: how far it is, why its plan must stay, what it runs and what is tried.
[[nodiscard]] std::string describe(const api::Job& job);
[[nodiscard]] std::string describe(const std::vector<api::Trial>& trials);
// The audit log.
[[nodiscard]] std::string describe(const std::vector<api::AuditEntry>& entries);

// The job that a verb means: `wanted`, else the only one, else the only active one; the error lists what there is.
[[nodiscard]] Result<std::string> choose_job(const api::ClusterStatus& cluster, const std::string& wanted);

}  // namespace trimtab::cli
