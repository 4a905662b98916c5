// Verbs that hand a job in and follow it: `tune` and `profile`.

#include <algorithm>
#include <filesystem>

#include "base/numbers.hpp"
#include "base/text_parts.hpp"
#include "files.hpp"
#include "init/command_job.hpp"
#include "jobs/interrupt.hpp"
#include "jobs/run_job.hpp"
#include "jobs/status_text.hpp"
#include "json_text.hpp"
#include "plans/plan_text.hpp"
#include "report/report.hpp"
#include "schema/settings/job_settings.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  SessionFlags session;
  std::string job;
  std::string out = "out";
  bool replace = false;
  bool follow = false;
  bool allow_restarts = false;
  std::vector<std::string> knobs;
  std::string overhead;
  std::string change_class;
  // Of a command.
  std::string checkpoint;
  std::string model;
  std::string steps;
  std::string write;
  bool dry_run = false;
  bool json = false;
};

// What is handed in, and from where.
struct Wanted {
  Job job;
  std::string path;  // of its file; empty: it has none
  bool only_shown = false;
};

Result<std::vector<OwnKnob>> own_knobs_of(const Arguments& arguments) {
  std::vector<OwnKnob> knobs;
  for (const std::string& text : arguments.knobs) {
    auto knob = parse_own_knob(text);
    if (!knob.ok()) return wrap("--knob", knob.error());
    if (std::ranges::count(knobs, knob->name, &OwnKnob::name) > 0) {
      return bad_input("--knob: " + knob->name + " is given twice; name all its values in one");
    }
    knobs.push_back(std::move(*knob));
  }
  return knobs;
}

Result<DraftWishes> wishes_of(const Arguments& arguments) {
  DraftWishes wishes;
  wishes.tune = true;
  wishes.checkpoint = arguments.checkpoint;
  wishes.model = arguments.model;
  TRIMTAB_TRY(wishes.own_knobs, own_knobs_of(arguments));
  if (arguments.steps.empty()) return wishes;
  wishes.steps = parse_number<std::int64_t>(arguments.steps);
  if (!wishes.steps || *wishes.steps < 1) {
    return bad_input("--steps: expected a positive number of steps, found '" + arguments.steps + "'");
  }
  return wishes;
}

// What the flags say over what the job says.
Status set_flags(const Arguments& arguments, Job& job) {
  job.allow_restarts = job.allow_restarts || arguments.allow_restarts;
  const auto set = [&job](const std::string& name, const std::string& flag, const std::string& text) -> Status {
    if (text.empty()) return {};
    ParsedJob parsed{std::move(job), "", ""};
    const Status taken =
        job_settings().set(parsed, {name, name, flag, GivenSetting::Type::kWord, text, "'" + text + "'", {}, {}});
    job = std::move(parsed.job);
    return taken;
  };
  TRIMTAB_TRY_STATUS(set("trials.overhead", "--overhead", arguments.overhead));
  return set("class", "--class", arguments.change_class);
}

// What a job needs to be tuned that the command does not say.
Status check_tunable(const JobDraft& draft) {
  if (!draft.tunes) {
    return no("this command has nothing to try: " + draft.why +
              ", and no layers() is found for plans to be searched. Name knobs of your own, such as --knob "
              "OMP_NUM_THREADS=1,2,4 --knob arg:--num-workers=2,4,8, or see what it does with 'trimtab run -- "
              "COMMAND'. 'trimtab init -- COMMAND' writes what plans would need");
  }
  if (!draft.saves && !draft.live) {
    return no(
        "this command does not say where it saves and resumes, so trials cannot be launched without touching "
        "its checkpoints. Put {checkpoint} in the place of the folder in the command, and the folder into "
        "--checkpoint DIR");
  }
  if (draft.counts) return {};
  return no("this command does not say how many steps it trains: give --steps N");
}

// A job that would not be the command's is not run. It may be looked at, or kept and put right.
Status check_whole(const Arguments& arguments, const JobDraft& draft) {
  if (draft.unread.empty() || arguments.dry_run) return {};
  return no("this command's job is not run, because it would lack " + joined(draft.unread, "; ") +
            ". Write the job file with --write FILE --dry-run, put it right, and tune that: trimtab tune --job FILE");
}

void show_knobs(const Job& job, std::ostream& out) {
  const OwnSettings written = written_settings(job);
  for (const OwnKnob& knob : job.own_knobs) {
    out << "  knob " << printable(knob.name) << " (" << knob.change_class
        << "): " << printable(joined(knob.values, " | ", [](const OwnSettings& value) { return own_words(value); }));
    const auto now = written.find(knob.name);
    out << (now == written.end() ? "" : ", now " + printable(now->second)) << "\n";
  }
}

void show_job(const Job& job, const std::string& target, std::ostream& out) {
  out << "understood: job " << job.name << ", " << job.world_size << (job.world_size == 1 ? " rank, " : " ranks, ")
      << job.steps << " steps, " << target << "\n  each rank runs: " << printable(joined(job.train, " ")) << "\n";
  if (!job.checkpoint.empty()) out << "  saves and resumes in " << printable(job.checkpoint) << "\n";
  if (job.mode != JobMode::kAuto) return;
  out << (job.delivery == Delivery::kLive ? "  trials are live: plans change as it trains, and nothing is stopped\n"
                                          : "  trials are restarts from a copy of its checkpoint\n");
}

// What was understood, before anything runs.
void show_understood(const Job& job, const JobDraft& draft, Console& console) {
  std::ostream& out = console.err;
  show_job(job, (draft.target.empty() ? "no framework" : draft.target) + " (" + draft.why + ")", out);
  if (draft.plan) out << "  runs now: " << one_line(*draft.plan) << "\n";
  if (draft.usual && !job.own_knobs.empty()) out << "  no --knob is named, so the usual ones are tried:\n";
  show_knobs(job, out);
  for (const std::string& remark : draft.remarks) out << "  - " << printable(remark) << "\n";
}

Result<Wanted> wanted_of_command(const Arguments& arguments, const std::vector<std::string>& given, Console& console) {
  TRIMTAB_TRY(const DraftWishes wishes, wishes_of(arguments));
  TRIMTAB_TRY(const JobDraft draft, job_of_command("tune", given, arguments.write, wishes));
  TRIMTAB_TRY_STATUS(check_tunable(draft));
  std::error_code ignored;
  const std::string here = std::filesystem::current_path(ignored).string();
  auto parsed = parse_job_toml(draft.toml, "the job of this command", here);
  if (!parsed.ok()) return wrap("tune: cannot make a job of this command", parsed.error());
  Wanted wanted{std::move(parsed->job), arguments.write, arguments.dry_run};
  if (draft.model && draft.plans) wanted.job.model_json = to_json(*draft.model);
  if (draft.plan && !parsed->initial_plan_path.empty()) wanted.job.initial_plan_json = to_json(*draft.plan);
  show_understood(wanted.job, draft, console);
  if (!arguments.write.empty()) {
    TRIMTAB_TRY_STATUS(write_draft(draft, arguments.write, "--write"));
    console.err << "wrote " << arguments.write << "\n";
  }
  TRIMTAB_TRY_STATUS(check_whole(arguments, draft));
  return wanted;
}

Result<Wanted> wanted_of_file(const Arguments& arguments) {
  if (arguments.job.empty()) {
    return bad_input(
        "tune: needs --job FILE, or the command that trains behind --: trimtab tune --knob "
        "OMP_NUM_THREADS=1,2,4 -- torchrun --nproc_per_node 2 train.py");
  }
  if (!arguments.checkpoint.empty() || !arguments.steps.empty() || !arguments.write.empty() ||
      !arguments.model.empty()) {
    return bad_input("--checkpoint, --steps, --model and --write are for a command behind --; the job file says them");
  }
  TRIMTAB_TRY(Job job, load_job(arguments.job));
  TRIMTAB_TRY(std::vector<OwnKnob> knobs, own_knobs_of(arguments));
  for (OwnKnob& knob : knobs) {
    std::erase_if(job.own_knobs, [&](const OwnKnob& known) { return known.name == knob.name; });
    job.own_knobs.push_back(std::move(knob));
  }
  return Wanted{std::move(job), arguments.job, arguments.dry_run};
}

Result<Wanted> wanted_job(const Arguments& arguments, const std::vector<std::string>& given, Console& console) {
  if (!given.empty() && !arguments.job.empty()) {
    return bad_input("tune: a job file or a command behind --, not both");
  }
  TRIMTAB_TRY(Wanted wanted, given.empty() ? wanted_of_file(arguments) : wanted_of_command(arguments, given, console));
  TRIMTAB_TRY_STATUS(set_flags(arguments, wanted.job));
  if (given.empty() && wanted.only_shown) {
    show_job(wanted.job, wanted.job.target.empty() ? "no target" : "target " + wanted.job.target, console.err);
    show_knobs(wanted.job, console.err);
  }
  TRIMTAB_TRY_STATUS(check_own_knobs(wanted.job));
  return wanted;
}

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

Result<int> tune(const Arguments& arguments, const std::vector<std::string>& given, Console& console) {
  const SystemClock clock;
  TRIMTAB_TRY(const Wanted wanted, wanted_job(arguments, given, console));
  if (wanted.only_shown) return 0;
  const Job& job = wanted.job;
  // Hours of tuning must not end at a folder that nothing can be written into.
  TRIMTAB_TRY_STATUS(make_writable_directory(arguments.out));
  const InterruptGuard guard(kSignalsHeeded);
  TRIMTAB_TRY(const std::unique_ptr<Session> session, Session::open(arguments.session, job.world_size, clock, console));
  const Submission submission{"tune", wanted.path, arguments.replace, arguments.follow};
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
  CLI::App* verb =
      add_verb(root, "tune",
               "Run a job, of a file or of the command behind --, and keep it on the fastest plan: profile, "
               "search, trials, report",
               "trimtab tune --job job.toml --out out");
  add_value(verb, "job,--job", arguments->job, "FILE", "job.toml");
  add_values(
      verb, "--knob", arguments->knobs, "NAME=VALUES",
      "A knob of your own and the values to try: OMP_NUM_THREADS=1,2,4, arg:--num-workers=2,4, flag:--compile=on,off");
  add_value(verb, "--overhead", arguments->overhead, "SHARE",
            "Of the job's time: what trials may cost, instead of what the job file says, or 0.02");
  add_value(verb, "--class", arguments->change_class, "exact|rounding|statistical",
            "The most that a change may do to what is learnt, instead of what the job file says, or rounding");
  add_value(verb, "--model", arguments->model, "FILE",
            "Of a Trainer's command: model.json (default: of config.json where --model_name_or_path names it)");
  add_value(verb, "--checkpoint", arguments->checkpoint, "DIR",
            "Of a command: the folder that it saves to and resumes from, where the command has {checkpoint}");
  add_value(verb, "--steps", arguments->steps, "N", "Of a command: the steps that it trains in all");
  add_value(verb, "--write", arguments->write, "FILE", "Of a command: keep what was understood as a job file");
  add_flag(verb, "--dry-run", arguments->dry_run, "Show what was understood, and run nothing");
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
