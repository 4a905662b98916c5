#include "jobs/follow_job.hpp"

#include <algorithm>
#include <set>
#include <thread>

#include "jobs/interrupt.hpp"
#include "jobs/job_state.hpp"
#include "jobs/reply_document.hpp"
#include "schema/api/history.hpp"

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kPoll = std::chrono::milliseconds(250);
constexpr Nanoseconds kAbsence = std::chrono::seconds(30);

class Follower {
 public:
  Follower(const CoordinatorClient& client, const std::string& name, LiveOutput& output, const Clock& clock)
      : client_(client), name_(name), output_(output), clock_(clock) {}

  Result<Followed> run() {
    heard_ = clock_.monotonic();
    while (true) {
      const Status status = poll();
      if (!status.ok() && status.error().kind != ErrorKind::kUnavailable) return status.error();
      if (!status.ok() && clock_.monotonic() - heard_ > kAbsence) return wrap("lost the coordinator", status.error());
      if (status.ok()) heard_ = clock_.monotonic();
      if (status.ok() && has_ended()) return followed_;
      TRIMTAB_TRY_STATUS(heed_interrupt());
      std::this_thread::sleep_for(kPoll);
    }
  }

 private:
  // Who has asked the job to stop waits for its end.
  [[nodiscard]] bool has_ended() const {
    const api::Job& job = followed_.last;
    if (is_halted(job)) return !followed_.interrupted;
    return (!job.active || (trains_on(job) && !followed_.interrupted)) && job.report_complete;
  }

  Status poll() {
    // The state first: events that end the job are then surely among those asked for next.
    TRIMTAB_TRY(const std::string body, client_.get(job_target(name_)));
    TRIMTAB_TRY(followed_.last, read_reply<api::Job>(body));
    TRIMTAB_TRY(const std::string events, client_.get(job_target(name_, "/events?after=" + std::to_string(sequence_))));
    // Trials before events: what follows a trial's end is an event.
    TRIMTAB_TRY_STATUS(print_trials());
    TRIMTAB_TRY_STATUS(print_events(events));
    output_.refresh(progress_line(followed_.last, terminal_width()));
    return {};
  }

  Status print_events(const std::string& body) {
    TRIMTAB_TRY(const api::Events events, read_reply<api::Events>(body));
    for (const api::Event& event : events.events) {
      sequence_ = std::max(sequence_, event.sequence);
      // Trials are printed below, with their plans.
      if (event.kind != "trial") output_.line(event.kind + ": " + printable(event.text));
    }
    return {};
  }

  Status print_trials() {
    if (followed_.last.trials == 0) return {};
    TRIMTAB_TRY(const std::string body, client_.get(job_target(name_, "/trials")));
    TRIMTAB_TRY(const api::Trials trials, read_reply<api::Trials>(body));
    for (const api::Trial& trial : trials.trials) {
      if (is_over(trial) && printed_.insert(trial.id).second) output_.line(trial_line(trial));
    }
    return {};
  }

  Status heed_interrupt() {
    if (!InterruptGuard::interrupted()) return {};
    if (!followed_.interrupted) {
      followed_.interrupted = true;
      asked_ = clock_.monotonic();
      output_.line("interrupted: asking the job to stop (once more to leave it alone)");
      const auto reply = client_.post(job_target(name_, "/stop"), "");
      if (!reply.ok()) output_.line(reply.error().message);
    }
    if (clock_.monotonic() - asked_ < kStopPatience) return {};
    return unavailable("the job " + name_ + " has not stopped in two minutes; 'trimtab status' shows what it does");
  }

  const CoordinatorClient& client_;
  const std::string& name_;
  LiveOutput& output_;
  const Clock& clock_;
  Followed followed_;
  std::int64_t sequence_ = 0;
  std::set<std::int64_t> printed_;
  Nanoseconds heard_{0};
  Nanoseconds asked_{0};
};

}  // namespace

Result<Followed> follow_job(const CoordinatorClient& client, const std::string& name, LiveOutput& output,
                            const Clock& clock) {
  return Follower(client, name, output, clock).run();
}

}  // namespace trimtab::cli
