#pragma once

// Watching a job until its tuning is over: polls the coordinator, prints what happens, passes Ctrl-C on as a wish to
// stop.

#include <string>

#include "base/clock.hpp"
#include "jobs/coordinator_client.hpp"
#include "jobs/progress.hpp"
#include "schema/api/job.hpp"

namespace trimtab::cli {

// How long a job that was asked to stop may take.
inline constexpr Nanoseconds kStopPatience = std::chrono::minutes(2);

struct Followed {
  api::Job last;
  bool interrupted = false;  // by Ctrl-C; the job was asked to stop
};

// Returns when the job is over, or trains on after its tuning, and its report is complete. Fails (kUnavailable) when
// the coordinator stays away for half a minute, or when the job does not stop within two minutes after Ctrl-C.
// REQUIRES: an InterruptGuard lives.
[[nodiscard]] Result<Followed> follow_job(const CoordinatorClient& client, const std::string& name, LiveOutput& output,
                                          const Clock& clock);

}  // namespace trimtab::cli
