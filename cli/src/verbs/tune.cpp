#include <CLI/CLI.hpp>
#include <memory>

#include "files.hpp"
#include "jobs/interrupt.hpp"
#include "jobs/job_state.hpp"
#include "jobs/run_job.hpp"
#include "report/html.hpp"
#include "report/text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  SessionFlags session;
  std::string job;
  std::string out = "out";
  bool replace = false;
  bool json = false;
};

// Writes both reports and prints the summary. The page and the summary are views: what they cannot show is still in
// report.json.
Status write_report(const Arguments& arguments, const std::string& text, Console& console) {
  TRIMTAB_TRY_STATUS(make_directories(arguments.out));
  TRIMTAB_TRY_STATUS(write_file(arguments.out + "/report.json", text));
  TRIMTAB_TRY(const ReportData report, parse_report(text, "the coordinator's report"));
  TRIMTAB_TRY_STATUS(write_file(arguments.out + "/report.html", report_html(report)));
  if (arguments.json) {
    console.out << text << "\n";
  } else {
    console.out << report_text(report) << "\nreport: " << arguments.out << "/report.html and report.json\n";
  }
  return {};
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
  TRIMTAB_TRY(const Job job, load_job(arguments.job));
  const InterruptGuard guard;
  TRIMTAB_TRY(const std::unique_ptr<Session> session, Session::open(arguments.session, job.world_size, clock, console));
  TRIMTAB_TRY_STATUS(submit_job(*session, job, {"/v1/jobs", "tune", arguments.job, arguments.replace}, clock, console));
  Result<Followed> followed = [&] {
    LiveOutput output(console.err, console.err_is_terminal);
    return follow_job(session->client(), job.name, output, clock);
  }();
  if (!followed.ok()) return followed.error();
  if (trains_on(followed->last)) TRIMTAB_TRY_STATUS(leave_training(*session, job.name, console));
  const Status verdict = judge(*followed);
  // A job that failed or was stopped late has a report worth keeping; one that never searched has none.
  const auto report = session->client().get(job_target(job.name, "/report"), std::chrono::seconds(30));
  if (report.ok()) TRIMTAB_TRY_STATUS(write_report(arguments, *report, console));
  if (!verdict.ok()) return verdict.error();
  if (!report.ok()) return wrap("the job is over, but its report is missing", report.error());
  return 0;
}

}  // namespace

void add_tune(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "tune", "Run a job and keep it on the fastest plan: profile, search, trials, report",
                            "trimtab tune --job job.toml --out out");
  add_value(verb, "job,--job", arguments->job, "FILE", "job.toml")->required();
  add_value(verb, "--out", arguments->out, "DIR", "Where report.json and report.html go")->capture_default_str();
  add_coordinator_flags(verb, arguments->session);
  verb->add_flag("--keep-up", arguments->session.keep_up,
                 "Leave the embedded daemons running although the job has ended");
  verb->add_flag("--replace", arguments->replace, "Stop another job of this name first, if one is running");
  add_json(verb, arguments->json);
  verb->callback([arguments, &selection] {
    selection.action = [arguments](Console& console) { return tune(*arguments, console); };
  });
}

}  // namespace trimtab::cli
