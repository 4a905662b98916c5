#include "daemons/ended_jobs.hpp"

#include <algorithm>
#include <thread>

#include "daemons/embedded.hpp"
#include "files.hpp"
#include "jobs/status_text.hpp"
#include "schema/api/status.hpp"

namespace trimtab::cli {
namespace {

constexpr Nanoseconds kPoll = std::chrono::milliseconds(50);
// For the steps that ranks are in and what they save after them.
constexpr Nanoseconds kEndPatience = std::chrono::seconds(15);
constexpr const char* kWhy = "trimtab down";

std::string note_path(const std::string& state_directory) {
  return state_directory + "/jobs-ended-by-down";
}

// A watched job is its user's: it is not ended with the daemons.
Result<std::vector<api::JobSummary>> running_jobs(const CoordinatorClient& client) {
  TRIMTAB_TRY(auto cluster, client.read<api::ClusterStatus>("/v1/status"));
  std::erase_if(cluster.jobs, [](const auto& job) { return !job.active || job.watched || is_halted(job); });
  return cluster.jobs;
}

// One that has ended meanwhile is none that is refused.
Status stop_each(const CoordinatorClient& client, const std::vector<api::JobSummary>& jobs) {
  for (const api::JobSummary& job : jobs) {
    const auto asked = client.post(job_target(job.name, "/stop"), "", kWhy);
    if (!asked.ok() && asked.error().kind != ErrorKind::kNo) return asked.error();
  }
  return {};
}

bool ended_in_time(const CoordinatorClient& client, const Clock& clock) {
  const Nanoseconds end = clock.monotonic() + kEndPatience;
  while (clock.monotonic() < end) {
    const auto left = running_jobs(client);
    if (!left.ok()) return false;
    if (left->empty()) return true;
    std::this_thread::sleep_for(kPoll);
  }
  return false;
}

std::string words(const api::JobSummary& job) {
  if (job.step == 0) return job.name;
  return job.name + ", at step " + std::to_string(job.step) + (job.steps > 0 ? " of " + std::to_string(job.steps) : "");
}

}  // namespace

std::vector<std::string> end_jobs(const std::string& state_directory, const UpState& state, const Clock& clock) {
  const CoordinatorClient client(embedded_address(state_directory, state));
  const bool is_up = !state.processes.empty() && is_alive(state.processes.front().identity);
  const auto jobs = is_up ? running_jobs(client) : unavailable("no coordinator is up");
  std::vector<std::string> ended;
  if (jobs.ok()) {
    for (const api::JobSummary& job : *jobs) ended.push_back(words(job));
    if (jobs->empty()) return ended;
    if (stop_each(client, *jobs).ok() && ended_in_time(client, clock)) return ended;
  }
  (void)replace_file(note_path(state_directory), "The jobs of this directory were ended by 'trimtab down'.\n");
  return ended;
}

Status end_noted_jobs(const std::string& state_directory, const UpState& state) {
  if (!is_there(note_path(state_directory))) return {};
  const CoordinatorClient client(embedded_address(state_directory, state));
  TRIMTAB_TRY(const std::vector<api::JobSummary> jobs, running_jobs(client));
  TRIMTAB_TRY_STATUS(stop_each(client, jobs));
  remove_if_there(note_path(state_directory));
  return {};
}

}  // namespace trimtab::cli
