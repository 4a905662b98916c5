#include <CLI/CLI.hpp>
#include <memory>

#include "jobs/reply_document.hpp"
#include "jobs/session.hpp"
#include "jobs/status_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  SessionFlags session;
  std::string job;
  bool json = false;
};

Result<int> trials(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  TRIMTAB_TRY(const std::string job, chosen_job(client, arguments.job));
  TRIMTAB_TRY(const std::string body, client.get(job_target(job, "/trials?all=1")));
  TRIMTAB_TRY(const api::Trials list, read_reply<api::Trials>(body));
  console.out << (arguments.json ? body + "\n" : "job " + job + "\n" + describe(list.trials));
  return 0;
}

}  // namespace

void add_trials(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "trials", "List a job's trials", "trimtab trials --job gpt-cpu");
  add_value(verb, "--job", arguments->job, "NAME", "Which job (default: the only one)");
  add_coordinator_flags(verb, arguments->session);
  add_json(verb, arguments->json);
  verb->callback([arguments, &selection] {
    selection.action = [arguments](Console& console) { return trials(*arguments, console); };
  });
}

}  // namespace trimtab::cli
