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

inline constexpr int kSignalsHeeded = 2;

struct Submission {
  std::string verb;           // "tune" or "profile"
  std::string path;           // of job.toml, for the message that names a command; empty: the job is a command's
  bool replace = false;       // stop another job of this name first
  bool shows_rank_0 = false;  // what rank 0 prints, as it comes
};

struct Followed {
  api::Job last;
  bool interrupted = false;  // by Ctrl-C or SIGTERM; the job was asked to stop
  bool left = false;         // by a second Ctrl-C: whatever it does, it was not waited for
};

// POSTs the job. One that runs already with the same document is taken up and said so on the console; with another
// document the error (kNo) names the command that replaces it. Stopping it may take two minutes (kUnavailable). Then
// follows it and returns when it is over, or trains on after its tuning, and its report is complete. Ctrl-C asks the
// job to stop after a moment in which a second one leaves it alone. A second one after that leaves it to its end. Fails
// (kUnavailable) when the coordinator stays away for half a minute, or when the job does not stop within two minutes.
// REQUIRES: an InterruptGuard lives that remembers kSignalsHeeded.
[[nodiscard]] Result<Followed> run_job(const Session& session, const Job& job, const Submission& how,
                                       const Clock& clock, Console& console);

// What of a job that was left is running, and how it is looked at and ended. `flag`: of its coordinator, with a space
// in front; `embedded`: that ends with 'trimtab down'.
[[nodiscard]] std::string left_running_text(const api::Job& job, bool stops, const std::string& flag, bool embedded);

// The verdict on a job that is over, as an exit code; a failure or an interruption is an error.
[[nodiscard]] Status judge(const Followed& followed);

}  // namespace trimtab::cli
