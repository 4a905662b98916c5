#include <CLI/CLI.hpp>
#include <memory>

#include "jobs/interrupt.hpp"
#include "jobs/reply_document.hpp"
#include "jobs/run_job.hpp"
#include "json_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  SessionFlags session;
  std::string job;
  bool replace = false;
  bool json = false;
};

Result<int> profile(const Arguments& arguments, Console& console) {
  const SystemClock clock;
  TRIMTAB_TRY(const Job job, load_job(arguments.job));
  const InterruptGuard guard;
  TRIMTAB_TRY(const std::unique_ptr<Session> session, Session::open(arguments.session, job.world_size, clock, console));
  TRIMTAB_TRY_STATUS(
      submit_job(*session, job, {"/v1/profile", "profile", arguments.job, arguments.replace}, clock, console));
  Result<Followed> followed = [&] {
    LiveOutput output(console.err, console.err_is_terminal);
    return follow_job(session->client(), job.name, output, clock);
  }();
  if (!followed.ok()) return followed.error();
  TRIMTAB_TRY_STATUS(judge(*followed));
  TRIMTAB_TRY(const std::string body, session->client().get(job_target(job.name)));
  TRIMTAB_TRY(const api::Job measured, read_reply<api::Job>(body));
  if (arguments.json) {
    console.out << json_text({{"job", job.name}, {"fingerprint", measured.fingerprint}}) << "\n";
  } else {
    console.out << "the costs of " << job.name << " are measured, fingerprint " << measured.fingerprint << "\n";
  }
  return 0;
}

}  // namespace

void add_profile(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "profile", "Measure the costs that a job's plans need, without training",
                            "trimtab profile --job job.toml");
  add_value(verb, "job,--job", arguments->job, "FILE", "job.toml")->required();
  add_coordinator_flags(verb, arguments->session);
  verb->add_flag("--keep-up", arguments->session.keep_up, "Leave the embedded daemons running afterwards");
  verb->add_flag("--replace", arguments->replace, "Stop another job of this name first, if one is running");
  add_json(verb, arguments->json);
  verb->callback([arguments, &selection] {
    selection.action = [arguments](Console& console) { return profile(*arguments, console); };
  });
}

}  // namespace trimtab::cli
