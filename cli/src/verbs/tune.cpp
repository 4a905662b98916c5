// Verbs that hand a job in and follow it: `tune` and `profile`.

#include "files.hpp"
#include "jobs/interrupt.hpp"
#include "jobs/run_job.hpp"
#include "jobs/status_text.hpp"
#include "json_text.hpp"
#include "report/report.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  SessionFlags session;
  std::string job;
  std::string out = "out";
  bool replace = false;
  bool follow = false;
  bool allow_restarts = false;
  bool json = false;
};

Status hand_over(const Arguments& arguments, const std::string& text, Console& console) {
  TRIMTAB_TRY(const ReportData report, write_report(arguments.out, text, "the coordinator's report"));
  if (arguments.json) {
    console.out << text << "\n";
  } else {
    console.out << report_text(report) << "\nreport: " << arguments.out << "/report.html and report.json\n";
  }
  return {};
}

// A second Ctrl-C: what runs goes on running, its daemons too, and somebody is told how to end it.
Status leave_running(Session& session, const Followed& followed, Console& console) {
  TRIMTAB_TRY_STATUS(session.keep_up());
  const bool embedded = !session.flag().starts_with(" --coordinator");
  console.err << "trimtab: " << left_running_text(followed.last, followed.interrupted, session.flag(), embedded)
              << "\n";
  return judge(followed);
}

// The job outlives this command; so must its daemons, and somebody must know how to find them.
Status leave_training(Session& session, const std::string& name, Console& console) {
  TRIMTAB_TRY_STATUS(session.keep_up());
  console.err << "trimtab: the job " << name << " trains on with the plan it keeps: 'trimtab status" << session.flag()
              << "' shows it";
  if (!session.flag().starts_with(" --coordinator")) {
    console.err << ", 'trimtab down" << session.flag() << "' ends it together with its daemons";
  }
  console.err << "\n";
  return {};
}

Result<int> tune(const Arguments& arguments, Console& console) {
  const SystemClock clock;
  TRIMTAB_TRY(Job job, load_job(arguments.job));
  job.allow_restarts = job.allow_restarts || arguments.allow_restarts;
  // Hours of tuning must not end at a folder that nothing can be written into.
  TRIMTAB_TRY_STATUS(make_writable_directory(arguments.out));
  const InterruptGuard guard(kSignalsHeeded);
  TRIMTAB_TRY(const std::unique_ptr<Session> session, Session::open(arguments.session, job.world_size, clock, console));
  const Submission submission{"tune", arguments.job, arguments.replace, arguments.follow};
  TRIMTAB_TRY(const Followed followed, run_job(*session, job, submission, clock, console));
  if (followed.left) TRIMTAB_TRY_STATUS(leave_running(*session, followed, console));
  if (trains_on(followed.last)) TRIMTAB_TRY_STATUS(leave_training(*session, job.name, console));
  const Status verdict = judge(followed);
  // A job that failed or was stopped late has a report worth keeping; one that never searched has none.
  const auto report = session->client().get(job_target(job.name, "/report"), std::chrono::seconds(30));
  if (report.ok()) TRIMTAB_TRY_STATUS(hand_over(arguments, *report, console));
  if (!verdict.ok()) return verdict.error();
  if (!report.ok()) return wrap("the job is over, but its report is missing", report.error());
  return 0;
}

Result<int> profile(const Arguments& arguments, Console& console) {
  const SystemClock clock;
  TRIMTAB_TRY(const Job job, load_job(arguments.job));
  const InterruptGuard guard(kSignalsHeeded);
  TRIMTAB_TRY(const std::unique_ptr<Session> session, Session::open(arguments.session, job.world_size, clock, console));
  const Submission submission{"profile", arguments.job, arguments.replace};
  TRIMTAB_TRY(const Followed followed, run_job(*session, job, submission, clock, console));
  if (followed.left) TRIMTAB_TRY_STATUS(leave_running(*session, followed, console));
  TRIMTAB_TRY_STATUS(judge(followed));
  TRIMTAB_TRY(const auto measured, session->client().read<api::Job>(job_target(job.name)));
  console.out << (arguments.json ? json_text({{"job", job.name}, {"fingerprint", measured.fingerprint}})
                                 : "the costs of " + job.name + " are measured, fingerprint " + measured.fingerprint)
              << "\n";
  return 0;
}

}  // namespace

void add_tune(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "tune", "Run a job and keep it on the fastest plan: profile, search, trials, report",
                            "trimtab tune --job job.toml --out out");
  add_value(verb, "job,--job", arguments->job, "FILE", "job.toml", Need::kRequired);
  add_value(verb, "--out", arguments->out, "DIR", "Where report.json and report.html go", Need::kHasDefault);
  add_coordinator_flags(verb, arguments->session);
  add_flag(verb, "--keep-up", arguments->session.keep_up,
           "Leave the embedded daemons running although the job has ended");
  add_flag(verb, "--replace", arguments->replace, "Stop another job of this name first, if one is running");
  add_flag(verb, "--follow", arguments->follow, "Show what rank 0 prints");
  add_flag(verb, "--allow-restarts", arguments->allow_restarts,
           "With delivery \"restart\": let trials stop the job, just after a checkpoint of its own");
  add_action(verb, selection, arguments, tune);
}

void add_profile(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "profile", "Measure the costs that a job's plans need, without training",
                            "trimtab profile --job job.toml");
  add_value(verb, "job,--job", arguments->job, "FILE", "job.toml", Need::kRequired);
  add_coordinator_flags(verb, arguments->session);
  add_flag(verb, "--keep-up", arguments->session.keep_up, "Leave the embedded daemons running afterwards");
  add_flag(verb, "--replace", arguments->replace, "Stop another job of this name first, if one is running");
  add_action(verb, selection, arguments, profile);
}

}  // namespace trimtab::cli
