#include "jobs/run_job.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <thread>

#include "files.hpp"
#include "jobs/interrupt.hpp"
#include "jobs/log_tail.hpp"
#include "jobs/status_text.hpp"
#include "plans/plan_text.hpp"
#include "plans/told_plan.hpp"
#include "schema/api/submission.hpp"
#include "terminal_filter.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kPoll = std::chrono::milliseconds(250);
constexpr Nanoseconds kStopPoll = std::chrono::milliseconds(100);
constexpr Nanoseconds kAbsence = std::chrono::seconds(30);
// In which a person who pressed Ctrl-C may think better of it.
constexpr Nanoseconds kSecondThoughts = std::chrono::seconds(3);
// How long a job that was asked to stop may take.
constexpr Nanoseconds kStopPatience = std::chrono::minutes(2);

Error not_stopped(const std::string& name) {
  return unavailable("the job " + name + " has not stopped in two minutes; 'trimtab status' shows what it does");
}

Result<bool> runs(const CoordinatorClient& client, const std::string& name) {
  TRIMTAB_TRY(const auto cluster, client.read<api::ClusterStatus>("/v1/status"));
  return std::ranges::any_of(cluster.jobs, [&](const api::JobSummary& job) { return job.name == name && job.active; });
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
    if (clock.monotonic() > end) return not_stopped(name);
    std::this_thread::sleep_for(kStopPoll);
    TRIMTAB_TRY(running, runs(client, name));
  }
  return {};
}

// Who hands in a job that was stopped must know that nothing goes on of itself where it was.
Status tell_of_earlier_run(const CoordinatorClient& client, const Job& job, Console& console) {
  TRIMTAB_TRY(const auto cluster, client.read<api::ClusterStatus>("/v1/status"));
  for (const api::JobSummary& one : cluster.jobs) {
    if (one.name != job.name || one.active || one.phase != Phase::kStopped) continue;
    console.err << "trimtab: an earlier run of " << job.name << " was stopped at step " << one.step
                << " and is over; this is a new one\n";
  }
  return {};
}

bool was_running(const std::string& reply) {
  const auto job = read_reply<api::Job>(reply);
  return job.ok() && job->was_running.value_or(false);
}

Status submit(const Session& session, const Job& job, const Submission& how, const Clock& clock, Console& console) {
  const CoordinatorClient& client = session.client();
  if (how.replace) TRIMTAB_TRY_STATUS(stop_running(client, job.name, clock, console));
  TRIMTAB_TRY_STATUS(tell_of_earlier_run(client, job, console));
  const bool tunes = how.verb == "tune";
  const auto reply =
      client.post(tunes ? "/v1/jobs" : "/v1/profile", api::to_json(api::Submission{{to_json(job)}, tunes}));
  if (!reply.ok() && reply.error().kind == ErrorKind::kNo) {
    const std::string again = "'trimtab " + how.verb + (how.path.empty() ? "" : " --job " + how.path) + session.flag() +
                              " --replace" + (how.path.empty() ? " -- COMMAND'" : "'");
    return no(reply.error().message + "; " + again + " does so and starts this one. Or give this one another name");
  }
  if (!reply.ok()) return reply.error();
  if (was_running(*reply)) {
    console.err << "trimtab: the job " << job.name << " is running already, handed in by an earlier command; "
                << "following it\n";
  }
  return {};
}

// With the plan that it is about, where it is about one.
std::string event_text(const api::Event& event) {
  const auto told = told_plan(event.data, "plan");
  const bool is_about_plan = told.ok() && told->has_value();
  return printable_lines(event.text) + (is_about_plan ? ". The plan: " + printable(one_line((*told)->plan)) : "");
}

// Columns of the terminal behind standard error; 100 where there is none.
std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 100;
  return size.ws_col - 1U;  // a full last column would wrap
}

class Follower {
 public:
  Follower(const CoordinatorClient& client, const std::string& name, LiveOutput& output, const Clock& clock,
           bool shows_rank_0)
      : client_(client), name_(name), output_(output), clock_(clock), shows_rank_0_(shows_rank_0) {}

  Result<Followed> run() {
    heard_ = clock_.monotonic();
    while (true) {
      const Status status = poll();
      if (!status.ok() && status.error().kind != ErrorKind::kUnavailable) return status.error();
      if (!status.ok() && clock_.monotonic() - heard_ > kAbsence) return wrap("lost the coordinator", status.error());
      if (status.ok()) heard_ = clock_.monotonic();
      if (status.ok() && has_ended()) return followed_;
      TRIMTAB_TRY_STATUS(heed_interrupt());
      if (followed_.left) return followed_;
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
    TRIMTAB_TRY(followed_.last, client_.read<api::Job>(job_target(name_)));
    const std::string after = "/events?after=" + std::to_string(sequence_);
    TRIMTAB_TRY(const auto events, client_.read<api::Events>(job_target(name_, after)));
    if (shows_rank_0_) show_rank_0(followed_.last.rank_0_log.value_or(""), !followed_.last.active);
    // Trials before events: what follows a trial's end is an event, and so is its end.
    if (!events.events.empty()) TRIMTAB_TRY_STATUS(print_trials());
    print_events(events);
    const std::string& waits = followed_.last.waits_for;
    if (std::exchange(waited_for_, waits) != waits && !waits.empty()) output_.line("waits: " + printable(waits));
    output_.refresh(progress_line(followed_.last, terminal_width()));
    return {};
  }

  void print_events(const api::Events& events) {
    for (const api::Event& event : events.events) {
      sequence_ = std::max(sequence_, event.sequence);
      // Trials are printed below, with their plans.
      if (event.kind != "trial") output_.line(event.kind + ": " + event_text(event));
    }
  }

  void show_lines(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) output_.line("| " + printable(line));
  }

  // From the log that the agent of its node keeps, where that is this machine. A trial's launches have another one than
  // the job itself: what was said last in the former is shown first.
  void show_rank_0(const std::string& log, bool is_over) {
    const auto colon = log.find(':');
    if (colon == std::string::npos) return;
    const std::string path = log.substr(colon + 1);
    if (!tail_ || tail_->path() != path) {
      if (tail_) show_lines(tail_->rest());
      tail_.emplace(path);
      const bool is_here = is_there(path);
      output_.line("rank 0 prints to " + printable(path) +
                   (is_here ? "" : " on node " + printable(log.substr(0, colon)) + ", which is not this machine"));
    }
    show_lines(tail_->new_lines());
    if (is_over) show_lines(tail_->rest());
  }

  Status print_trials() {
    if (followed_.last.trials == 0) return {};
    TRIMTAB_TRY(const auto trials, client_.read<api::Trials>(job_target(name_, "/trials")));
    for (const api::Trial& trial : trials.trials) {
      if (is_over(trial) && printed_.insert(trial.id).second) output_.line(trial_line(trial));
    }
    return {};
  }

  // The first Ctrl-C is a wish that a second one takes back. One that comes too late for that ends the waiting alone.
  Status heed_interrupt() {
    if (!InterruptGuard::interrupted()) return {};
    const Nanoseconds now = clock_.monotonic();
    if (InterruptGuard::signals() >= kSignalsHeeded) {
      followed_.left = true;
      return {};
    }
    if (!wished_) {
      wished_ = now;
      if (!InterruptGuard::terminated()) {
        output_.line("interrupted: the job is asked to stop in 3 s. Ctrl-C again: it is left alone and runs on");
        return {};
      }
    }
    if (!followed_.interrupted && (InterruptGuard::terminated() || now - *wished_ >= kSecondThoughts)) ask_to_stop();
    if (!followed_.interrupted || now - *wished_ < kStopPatience) return {};
    return not_stopped(name_);
  }

  void ask_to_stop() {
    followed_.interrupted = true;
    output_.line("asking the job to stop. Ctrl-C again: its end is not waited for");
    const auto reply = client_.post(job_target(name_, "/stop"), "");
    if (!reply.ok()) output_.line(reply.error().message);
  }

  const CoordinatorClient& client_;
  const std::string& name_;
  LiveOutput& output_;
  const Clock& clock_;
  Followed followed_;
  std::int64_t sequence_ = 0;
  std::set<std::int64_t> printed_;
  std::string waited_for_;
  const bool shows_rank_0_;
  std::optional<LogTail> tail_;
  Nanoseconds heard_{0};
  std::optional<Nanoseconds> wished_;  // when somebody wished the job to stop
};

}  // namespace

void LiveOutput::line(std::string_view text) {
  finish();
  stream_ << text << std::endl;  // flushed: people and pipes read it while the job runs
}

void LiveOutput::refresh(const std::string& text) {
  if (!terminal_ || text == shown_) return;
  control_terminal(stream_, "\r\x1b[K");
  stream_ << text << std::flush;
  shown_ = text;
}

void LiveOutput::finish() {
  if (shown_.empty()) return;
  control_terminal(stream_, "\r\x1b[K");
  stream_ << std::flush;
  shown_.clear();
}

Result<Followed> run_job(const Session& session, const Job& job, const Submission& how, const Clock& clock,
                         Console& console) {
  TRIMTAB_TRY_STATUS(submit(session, job, how, clock, console));
  LiveOutput output(console.err, console.err_is_terminal);
  return Follower(session.client(), job.name, output, clock, how.shows_rank_0).run();
}

std::string left_running_text(const api::Job& job, bool stops, const std::string& flag, bool embedded) {
  const std::string name = printable(job.name);
  std::string text = stops ? "the job " + name + " was asked to stop, and ends by itself"
                           : "the job " + name + " was left alone and runs on (" + printable(job.phase.text()) + ")";
  text += ": 'trimtab status" + flag + "' shows it";
  if (!stops) text += ", 'trimtab job stop --job " + name + flag + "' ends it";
  return embedded ? text + ", 'trimtab down" + flag + "' ends its daemons and what they run" : text;
}

Status judge(const Followed& followed) {
  const api::Job& job = followed.last;
  if (followed.left) {
    return unavailable("interrupted; the job " + job.name +
                       (followed.interrupted ? " was asked to stop" : " was left running"));
  }
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
