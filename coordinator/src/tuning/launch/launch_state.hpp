#pragma once

// The launches of a job and the epochs of its plans: the persisted part of Launch. A plain value.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tuning/launch/command_tag.hpp"
#include "tuning/launch/crash_budget.hpp"
#include "tuning/search/planning.hpp"

namespace trimtab::coordinator {

// What follows once the ranks of the current launch are dead.
enum class AfterKill { kRelaunch, kUntuned, kFinish, kFail, kStop, kRestart, kHalt };

// Of launches that try a plan, where the job is restarted to change it; their scratch is apart.
inline constexpr std::string_view kTrialVariant = "trial";

struct LaunchState {
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
  double launch_ms = 0;               // what the last launch took, until its first step

  [[nodiscard]] bool is_outstanding(CommandKind kind) const;
  [[nodiscard]] bool is_outstanding(const std::string& tag) const;
  // The current launch is one that tries a plan.
  [[nodiscard]] bool runs_trial() const { return launch_variant == kTrialVariant; }
  // A new epoch, of this plan. Old ones that no rank can run any more are forgotten.
  std::uint64_t begin_epoch(const std::string& plan_hash);
  // Of the plan of an epoch; null = of no plan that is known.
  [[nodiscard]] const std::string* hash_of(std::uint64_t epoch) const;
};

}  // namespace trimtab::coordinator
