#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <thread>

#include "jobs/interrupt.hpp"
#include "jobs/live_text.hpp"
#include "jobs/reply_document.hpp"
#include "jobs/session.hpp"
#include "jobs/status_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

constexpr auto kPeriod = std::chrono::seconds(1);

struct Arguments {
  SessionFlags session;
  std::string job;
  bool once = false;
  bool json = false;
};

std::string page_of(const api::Job& job, const std::vector<api::LiveRank>& ranks) {
  return describe(job) + "\n" + describe(ranks);
}

Result<int> top(const Arguments& arguments, Console& console) {
  const InterruptGuard guard;
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  TRIMTAB_TRY(const std::string name, chosen_job(client, arguments.job));
  while (!InterruptGuard::interrupted()) {
    TRIMTAB_TRY(const std::string body, client.get(job_target(name)));
    TRIMTAB_TRY(const std::string live, client.get(job_target(name, "/live")));
    TRIMTAB_TRY(const api::Job job, read_reply<api::Job>(body));
    if (arguments.json) {
      console.out << R"({"job":)" << body << R"(,"live":)" << live << "}" << std::endl;
    } else {
      TRIMTAB_TRY(const api::LiveJob ranks, read_reply<api::LiveJob>(live));
      // On a terminal the page is drawn over the last one; elsewhere pages follow each other.
      const bool redraw = console.out_is_terminal && !arguments.once;
      console.out << (redraw ? "\x1b[H\x1b[2J" : "") << page_of(job, ranks.ranks)
                  << (arguments.once || redraw ? "" : "\n") << std::flush;
    }
    if (arguments.once || !job.active) return 0;
    if (!console.out) return unavailable("nobody reads the output");
    std::this_thread::sleep_for(kPeriod);
  }
  return 0;
}

}  // namespace

void add_top(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      add_verb(root, "top", "Watch what a job's ranks do, until it is over or Ctrl-C", "trimtab top --job gpt-cpu");
  add_value(verb, "--job", arguments->job, "NAME", "Which job (default: the only one)");
  verb->add_flag("--once", arguments->once, "Print once and end");
  add_coordinator_flags(verb, arguments->session);
  add_json(verb, arguments->json);
  verb->callback([arguments, &selection] {
    selection.action = [arguments](Console& console) { return top(*arguments, console); };
  });
}

}  // namespace trimtab::cli
