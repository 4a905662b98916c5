#pragma once

// What `tune` and `profile` share: hand a job in and follow it to its end. Polls the coordinator, prints what happens,
// passes Ctrl-C on as a wish to stop.

#include "jobs/session.hpp"
#include "schema/api/job.hpp"
#include "schema/job.hpp"

namespace trimtab::cli {

// Lines that stay, and below them, on a terminal, one that is refreshed. Elsewhere the refreshed line is not printed at
// all.
class LiveOutput {
 public:
  LiveOutput(std::ostream& stream, bool terminal) : stream_(stream), terminal_(terminal) {}
  ~LiveOutput() { finish(); }
  LiveOutput(const LiveOutput&) = delete;
  LiveOutput& operator=(const LiveOutput&) = delete;

  void line(std::string_view text);
  void refresh(const std::string& text);
  // Removes the refreshed line.
  void finish();

 private:
  std::ostream& stream_;
  bool terminal_;
  std::string shown_;
};

struct Submission {
  std::string verb;           // "tune" or "profile"
  std::string path;           // of job.toml, for the message that names a command
  bool replace = false;       // stop another job of this name first
  bool shows_rank_0 = false;  // what rank 0 prints, as it comes
};

struct Followed {
  api::Job last;
  bool interrupted = false;  // by Ctrl-C; the job was asked to stop
};

// POSTs the job. One that runs already with the same document is taken up and said so on the console; with another
// document the error (kNo) names the command that replaces it. Stopping it may take two minutes (kUnavailable). Then
// follows it and returns when it is over, or trains on after its tuning, and its report is complete. Fails
// (kUnavailable) when the coordinator stays away for half a minute, or when the job does not stop within two minutes
// after Ctrl-C. REQUIRES: an InterruptGuard lives.
[[nodiscard]] Result<Followed> run_job(const Session& session, const Job& job, const Submission& how,
                                       const Clock& clock, Console& console);

// The verdict on a job that is over, as an exit code; a failure or an interruption is an error.
[[nodiscard]] Status judge(const Followed& followed);

}  // namespace trimtab::cli
