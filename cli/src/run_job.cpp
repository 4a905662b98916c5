#include "run_job.hpp"
#include "json_text.hpp"

namespace trimtab::cli {

Status submit_job(const CoordinatorClient& client, const Job& job, const std::string& target) {
  const nlohmann::json body = {{"job", nlohmann::json::parse(to_json(job))}, {"tune", target == "/v1/jobs"}};
  TRIMTAB_TRY(const std::string ignored, client.post(target, json_text(body)));
  return {};
}

Status judge(const Followed& followed) {
  const JobState& job = followed.last;
  if (followed.interrupted) return unavailable("interrupted; the job " + job.name + " was stopped");
  if (job.phase == "failed") {
    return unavailable("the job " + job.name +
                       " failed: " + (job.failure.empty() ? "no reason was given" : job.failure));
  }
  if (job.phase == "stopped") return unavailable("the job " + job.name + " was stopped by somebody else");
  return {};
}

}  // namespace trimtab::cli
