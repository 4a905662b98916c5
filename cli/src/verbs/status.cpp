// What the coordinator says, and what it is told of a job: `status`, `trials`, `top`, `audit` and `job`.

#include <CLI/CLI.hpp>
#include <array>
#include <thread>

#include "jobs/interrupt.hpp"
#include "jobs/live_text.hpp"
#include "jobs/session.hpp"
#include "jobs/status_text.hpp"
#include "terminal_filter.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  SessionFlags session;
  std::string job;
  std::string why;
  std::int64_t after = 0;
  bool once = false;
  bool json = false;
};

Result<int> status(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  TRIMTAB_TRY(const std::string body, client.get("/v1/status"));
  TRIMTAB_TRY(const auto cluster, read_reply<api::ClusterStatus>(body));
  console.out << (arguments.json ? body + "\n" : describe(cluster));
  return 0;
}

Result<int> trials(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  TRIMTAB_TRY(const std::string job, chosen_job(client, arguments.job));
  TRIMTAB_TRY(const std::string body, client.get(job_target(job, "/trials?all=1")));
  TRIMTAB_TRY(const auto list, read_reply<api::Trials>(body));
  console.out << (arguments.json ? body + "\n" : "job " + job + "\n" + describe(list.trials));
  return 0;
}

Result<int> top(const Arguments& arguments, Console& console) {
  const InterruptGuard guard;
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  TRIMTAB_TRY(const std::string name, chosen_job(client, arguments.job));
  while (!InterruptGuard::interrupted()) {
    TRIMTAB_TRY(const std::string body, client.get(job_target(name)));
    TRIMTAB_TRY(const std::string live, client.get(job_target(name, "/live")));
    TRIMTAB_TRY(const auto job, read_reply<api::Job>(body));
    if (arguments.json) {
      console.out << R"({"job":)" << body << R"(,"live":)" << live << "}" << std::endl;
    } else {
      TRIMTAB_TRY(const auto ranks, read_reply<api::LiveJob>(live));
      // On a terminal the page is drawn over the last one; elsewhere pages follow each other.
      const bool redraw = console.out_is_terminal && !arguments.once;
      if (redraw) control_terminal(console.out, "\x1b[H\x1b[2J");
      console.out << describe(job) << "\n"
                  << describe(ranks.ranks) << (arguments.once || redraw ? "" : "\n") << std::flush;
    }
    if (arguments.once || !job.active) return 0;
    if (!console.out) return unavailable("nobody reads the output");
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  return 0;
}

// The coordinator gives a page at a time; what is printed is all.
Result<int> audit(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  api::Audit all;
  for (std::int64_t after = arguments.after;;) {
    TRIMTAB_TRY(const auto page, client.read<api::Audit>("/v1/audit?after=" + std::to_string(after) +
                                                         "&job=" + percent_encoded(arguments.job)));
    if (page.entries.empty() || page.entries.back().entry <= after) break;
    after = page.entries.back().entry;
    all.entries.insert(all.entries.end(), page.entries.begin(), page.entries.end());
  }
  console.out << (arguments.json ? api::to_json(all) + "\n" : describe(all.entries));
  return 0;
}

struct Order {
  const char* name;
  const char* path;
  const char* description;
};

constexpr std::array kOrders{
    Order{"approve", "/approve", "Let the trial that awaits approval begin (mode \"approve\")"},
    Order{"freeze", "/freeze", "Keep the plan as it is: a trial in progress ends, none begins"},
    Order{"unfreeze", "/unfreeze", "Let plans change again"},
    Order{"own-plan", "/own-plan", "Go back to the plan that the job began with, and keep it: freeze it there"},
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

void add_status(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      add_verb(root, "status", "Show the coordinator's nodes and jobs", "trimtab status --coordinator 127.0.0.1:7420");
  add_coordinator_flags(verb, arguments->session);
  add_action(verb, selection, arguments, status);
}

void add_trials(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "trials", "List a job's trials", "trimtab trials --job gpt-cpu");
  add_value(verb, "--job", arguments->job, "NAME", "Which job (default: the only one)");
  add_coordinator_flags(verb, arguments->session);
  add_action(verb, selection, arguments, trials);
}

void add_top(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      add_verb(root, "top", "Watch what a job's ranks do, until it is over or Ctrl-C", "trimtab top --job gpt-cpu");
  add_value(verb, "--job", arguments->job, "NAME", "Which job (default: the only one)");
  add_flag(verb, "--once", arguments->once, "Print once and end");
  add_coordinator_flags(verb, arguments->session);
  add_action(verb, selection, arguments, top);
}

void add_audit(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "audit", "Print who did what, when and why: people and the coordinator",
                            "trimtab audit --job gpt-cpu --json");
  add_value(verb, "--job", arguments->job, "NAME", "This job's entries alone");
  verb->add_option("--after", arguments->after, "Entries after this number")->type_name("N");
  add_coordinator_flags(verb, arguments->session);
  add_action(verb, selection, arguments, audit);
}

void add_job(CLI::App& root, Selection& selection) {
  CLI::App& group = add_group(root, "job", "Approve, freeze, unfreeze or stop a running job",
                              "trimtab job freeze --job gpt-cpu --why 'evaluation runs tonight'");
  for (const Order& order : kOrders) {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* verb =
        add_verb(group, order.name, order.description, "trimtab job " + std::string(order.name) + " --job gpt-cpu");
    add_value(verb, "--job", arguments->job, "NAME", "Which job (default: the only one)");
    add_value(verb, "--why", arguments->why, "TEXT", "The reason, for the audit log");
    add_coordinator_flags(verb, arguments->session);
    add_action(verb, selection, arguments->json,
               [arguments, &order](Console& console) { return give(order, *arguments, console); });
  }
}

}  // namespace trimtab::cli
