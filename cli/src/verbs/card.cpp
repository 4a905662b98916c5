// What a job's steps spend their time on, and what would make them shorter: `card`.

#include <CLI/CLI.hpp>

#include "jobs/card_text.hpp"
#include "jobs/session.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  SessionFlags session;
  std::string job;
  bool json = false;
};

Result<int> card(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  TRIMTAB_TRY(const std::string job, chosen_job(client, arguments.job));
  TRIMTAB_TRY(const std::string body, client.get(job_target(job, "/card")));
  TRIMTAB_TRY(const auto read, api::parse<api::Card>(body, "the coordinator's card"));
  console.out << (arguments.json ? body + "\n" : card_text(read));
  return 0;
}

}  // namespace

void add_card(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      add_verb(root, "card", "Say where a job's steps go, and what would make them shorter", "trimtab card train-1");
  add_value(verb, "NAME", arguments->job, "NAME", "Which job (default: the only one)");
  add_coordinator_flags(verb, arguments->session);
  add_action(verb, selection, arguments, card);
}

}  // namespace trimtab::cli
