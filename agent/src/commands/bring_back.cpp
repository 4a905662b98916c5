// A restarted job's way back to the plan that it keeps, where nobody commands it: the kill switch is thrown and no
// coordinator is there.

#include <spdlog/spdlog.h>

#include <algorithm>

#include "commands/command_runner.hpp"

namespace trimtab::agent {
namespace {

// Launch.variant of launches that try a plan.
constexpr std::string_view kTrialVariant = "trial";

// The latest launch of a restarted job itself, in the job's own scratch.
std::string path_in(const Scratch& scratch) {
  return scratch.path() + "/kept-launch";
}

Status keep_launch(const Scratch& scratch, const wire::Launch& launch) {
  return write_file(path_in(scratch), launch.SerializeAsString());
}

// The same as launch number `number`: no earlier snapshot is replaced, and ranks that meet in a file meet in another
// one. An error where none is kept.
Result<wire::Launch> kept_launch(const Scratch& scratch, std::uint64_t number) {
  TRIMTAB_TRY(const std::string text, read_file(path_in(scratch)));
  wire::Launch launch;
  if (!launch.ParseFromString(text)) return bad_input(path_in(scratch) + " is damaged: it holds no launch");
  launch.set_launch(number);
  launch.set_fresh(false);
  if (launch.rendezvous().find("://") == std::string::npos) {
    launch.set_rendezvous(launch.rendezvous() + "-again-" + std::to_string(number));
  }
  return launch;
}

}  // namespace

void CommandRunner::remember(const wire::Launch& launch, const Job& job) {
  if (job.delivery != Delivery::kRestart) return;
  if (launch.variant() == kTrialVariant) {
    in_trial_.insert(job.name);
  } else {
    in_trial_.erase(job.name);
  }
  if (!launch.variant().empty()) return;
  const Status kept = keep_launch(Scratch(surroundings_.state, job.name, ""), launch);
  if (!kept.ok()) {
    spdlog::warn("a thrown kill switch could not bring job {} back to its plan with no coordinator: {}", job.name,
                 kept.error().message);
  }
}

void CommandRunner::bring_back() {
  std::set<std::string> jobs = in_trial_;
  for (const LedgerRank& rank : surroundings_.ranks.all()) {
    if (!rank.ended && rank.id.variant == kTrialVariant) jobs.insert(rank.id.job);
  }
  for (const std::string& job : jobs) bring_back(job);
}

void CommandRunner::bring_back(const std::string& job) {
  if (!bringing_back_.insert(job).second) return;
  std::uint64_t latest = 0;
  for (const LedgerRank& rank : surroundings_.ranks.all()) {
    if (rank.id.job == job) latest = std::max(latest, rank.launch);
  }
  const auto kept = kept_launch(Scratch(surroundings_.state, job, ""), latest + 1);
  if (!kept.ok()) {
    return spdlog::error("the kill switch is thrown, and job {} cannot be brought back to the plan that it keeps: {}",
                         job, kept.error().message);
  }
  spdlog::warn(
      "the kill switch is thrown and no coordinator is there: the trial of job {} ends here, and the job goes "
      "on with the plan that it keeps, as launch {}",
      job, latest + 1);
  surroundings_.ranks.end(job, std::string(kTrialVariant), 0, surroundings_.kill_grace, [this, job, launch = *kept] {
    if (!bringing_back_.contains(job)) return;
    if (const Status begun = brought_back(launch); !begun.ok()) {
      spdlog::error("job {} could not be brought back to the plan that it keeps: {}", job, begun.error().message);
    }
  });
}

Status CommandRunner::brought_back(const wire::Launch& launch) {
  TRIMTAB_TRY(const Job job, parse_job(launch.job_json(), "the kept launch's job"));
  const Scratch scratch(surroundings_.state, job.name, "");
  TRIMTAB_TRY_STATUS(scratch.create());
  TRIMTAB_TRY_STATUS(write_file(scratch.plan(launch.epoch()), launch.plan_json()));
  TRIMTAB_TRY_STATUS(start_launch(launch, job));
  in_trial_.erase(job.name);
  return {};
}

}  // namespace trimtab::agent
