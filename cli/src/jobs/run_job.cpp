#include "jobs/run_job.hpp"

#include <algorithm>
#include <thread>

#include "jobs/interrupt.hpp"
#include "jobs/job_state.hpp"
#include "jobs/reply_document.hpp"
#include "schema/api/status.hpp"
#include "schema/api/submission.hpp"

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kPoll = std::chrono::milliseconds(100);

Result<bool> runs(const CoordinatorClient& client, const std::string& name) {
  TRIMTAB_TRY(const std::string body, client.get("/v1/status"));
  TRIMTAB_TRY(const api::ClusterStatus cluster, read_reply<api::ClusterStatus>(body));
  return std::any_of(cluster.jobs.begin(), cluster.jobs.end(),
                     [&](const api::JobSummary& job) { return job.name == name && job.active; });
}

Status stop_running(const CoordinatorClient& client, const std::string& name, const Clock& clock, Console& console) {
  TRIMTAB_TRY(bool running, runs(client, name));
  if (!running) return {};
  console.err << "trimtab: stopping the job " << name << " that is running\n";
  const auto asked = client.post(job_target(name, "/stop"), "");
  // It may have ended in the meantime.
  if (!asked.ok() && asked.error().kind != ErrorKind::kNo) return asked.error();
  const Nanoseconds end = clock.monotonic() + kStopPatience;
  while (running) {
    if (InterruptGuard::interrupted()) return unavailable("interrupted; the job " + name + " was asked to stop");
    if (clock.monotonic() > end) {
      return unavailable("the job " + name + " has not stopped in two minutes; 'trimtab status' shows what it does");
    }
    std::this_thread::sleep_for(kPoll);
    TRIMTAB_TRY(running, runs(client, name));
  }
  return {};
}

bool was_running(const std::string& reply) {
  const auto job = read_reply<api::Job>(reply);
  return job.ok() && job->was_running.value_or(false);
}

}  // namespace

Status submit_job(const Session& session, const Job& job, const Submission& how, const Clock& clock, Console& console) {
  const CoordinatorClient& client = session.client();
  if (how.replace) TRIMTAB_TRY_STATUS(stop_running(client, job.name, clock, console));
  const api::Submission submission{{to_json(job)}, how.verb == "tune"};
  const auto reply = client.post(how.target, api::to_json(submission));
  if (!reply.ok() && reply.error().kind == ErrorKind::kNo) {
    return no(reply.error().message + "; 'trimtab " + how.verb + " --job " + how.path + session.flag() +
              " --replace' does so and starts this one. Or give this one another name");
  }
  if (!reply.ok()) return reply.error();
  if (was_running(*reply)) {
    console.err << "trimtab: the job " << job.name << " is running already, handed in by an earlier command; "
                << "following it\n";
  }
  return {};
}

Status judge(const Followed& followed) {
  const api::Job& job = followed.last;
  if (followed.interrupted) return unavailable("interrupted; the job " + job.name + " was stopped");
  if (job.phase == Phase::kFailed) {
    return unavailable("the job " + job.name +
                       " failed: " + (job.failure.empty() ? "no reason was given" : job.failure));
  }
  if (is_halted(job)) {
    return unavailable("the job " + job.name + " is halted: " + job.failure +
                       ". Find out why, then give this command again: the job goes on from its last snapshot");
  }
  if (job.phase == Phase::kStopped) return unavailable("the job " + job.name + " was stopped by somebody else");
  return {};
}

}  // namespace trimtab::cli
