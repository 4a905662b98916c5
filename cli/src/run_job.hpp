#pragma once

// What `tune` and `profile` share: hand a job in and follow it to its end.

#include <string>

#include "follow_job.hpp"
#include "schema/job.hpp"
#include "session.hpp"

namespace trimtab::cli {

// POSTs the job to `target` ("/v1/jobs" or "/v1/profile").
[[nodiscard]] Status submit_job(const CoordinatorClient& client, const Job& job, const std::string& target);

// The verdict on a job that is over, as an exit code; a failure or an interruption is an error.
[[nodiscard]] Status judge(const Followed& followed);

}  // namespace trimtab::cli
