#include <CLI/CLI.hpp>
#include <array>
#include <memory>

#include "jobs/progress.hpp"
#include "jobs/reply_document.hpp"
#include "jobs/session.hpp"
#include "jobs/status_text.hpp"
#include "plans/plan_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  SessionFlags session;
  std::string job;
  std::string why;
  bool json = false;
};

struct Order {
  const char* name;
  const char* path;
  const char* description;
};

constexpr std::array kOrders{
    Order{"approve", "/approve", "Let the trial that awaits approval begin (mode \"approve\")"},
    Order{"freeze", "/freeze", "Keep the plan as it is: a trial in progress ends, none begins"},
    Order{"unfreeze", "/unfreeze", "Let plans change again"},
    Order{"stop", "/stop", "End the job after the step that it is in"}};

Result<int> give(const Order& order, const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  TRIMTAB_TRY(const std::string name, chosen_job(client, arguments.job));
  TRIMTAB_TRY(const std::string body, client.post(job_target(name, order.path), "", arguments.why));
  TRIMTAB_TRY(const api::Job job, read_reply<api::Job>(body));
  const std::string held = job.held_by.empty() ? "" : " (" + printable(job.held_by) + ")";
  console.out << (arguments.json ? body : "job " + printable(name) + ": " + progress_line(job, 120) + held) << "\n";
  if (job.storage_failure.empty()) return 0;
  return unavailable(
      "the order waits and nothing is done yet: the coordinator cannot store the job's state (" +
      printable(job.storage_failure) +
      "). Make room where it is; a coordinator that ends before that forgets the order: give it again then");
}

}  // namespace

void add_job(CLI::App& root, Selection& selection) {
  CLI::App* group = add_verb(root, "job", "Approve, freeze, unfreeze or stop a running job",
                             "trimtab job freeze --job gpt-cpu --why 'evaluation runs tonight'");
  group->require_subcommand(1);
  for (const Order& order : kOrders) {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* verb =
        add_verb(*group, order.name, order.description, "trimtab job " + std::string(order.name) + " --job gpt-cpu");
    add_value(verb, "--job", arguments->job, "NAME", "Which job (default: the only one)");
    add_value(verb, "--why", arguments->why, "TEXT", "The reason, for the audit log");
    add_coordinator_flags(verb, arguments->session);
    add_json(verb, arguments->json);
    verb->callback([arguments, &order, &selection] {
      selection.action = [arguments, &order](Console& console) { return give(order, *arguments, console); };
    });
  }
}

}  // namespace trimtab::cli
