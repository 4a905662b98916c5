#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>

#include "jobs/audit_text.hpp"
#include "jobs/reply_document.hpp"
#include "jobs/session.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  SessionFlags session;
  std::string job;
  std::int64_t after = 0;
  bool json = false;
};

// The coordinator gives a page at a time; what is printed is all.
Result<api::Audit> read_all(const CoordinatorClient& client, const Arguments& arguments) {
  api::Audit all;
  std::int64_t after = arguments.after;
  while (true) {
    TRIMTAB_TRY(const std::string body,
                client.get("/v1/audit?after=" + std::to_string(after) + "&job=" + percent_encoded(arguments.job)));
    TRIMTAB_TRY(const api::Audit page, read_reply<api::Audit>(body));
    if (page.entries.empty() || page.entries.back().entry <= after) return all;
    after = page.entries.back().entry;
    all.entries.insert(all.entries.end(), page.entries.begin(), page.entries.end());
  }
}

Result<int> audit(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  TRIMTAB_TRY(const api::Audit all, read_all(client, arguments));
  console.out << (arguments.json ? api::to_json(all) + "\n" : describe(all.entries));
  return 0;
}

}  // namespace

void add_audit(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "audit", "Print who did what, when and why: people and the coordinator",
                            "trimtab audit --job gpt-cpu --json");
  add_value(verb, "--job", arguments->job, "NAME", "This job's entries alone");
  verb->add_option("--after", arguments->after, "Entries after this number")->type_name("N");
  add_coordinator_flags(verb, arguments->session);
  add_json(verb, arguments->json);
  verb->callback([arguments, &selection] {
    selection.action = [arguments](Console& console) { return audit(*arguments, console); };
  });
}

}  // namespace trimtab::cli
