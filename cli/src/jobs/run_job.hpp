#pragma once

// What `tune` and `profile` share: hand a job in and follow it to its end.

#include <string>

#include "base/clock.hpp"
#include "jobs/follow_job.hpp"
#include "jobs/session.hpp"
#include "schema/job.hpp"

namespace trimtab::cli {

struct Submission {
  std::string target;    // "/v1/jobs" or "/v1/profile"
  std::string verb;      // "tune" or "profile", for the message that names a command
  std::string path;      // of job.toml, likewise
  bool replace = false;  // stop another job of this name first
};

// POSTs the job. One that runs already with the same document is taken up and said so on the console; with another
// document the error (kNo) names the command that replaces it. Stopping it may take until kStopPatience (kUnavailable).
// REQUIRES: an InterruptGuard lives.
[[nodiscard]] Status submit_job(const Session& session, const Job& job, const Submission& how, const Clock& clock,
                                Console& console);

// The verdict on a job that is over, as an exit code; a failure or an interruption is an error.
[[nodiscard]] Status judge(const Followed& followed);

}  // namespace trimtab::cli
