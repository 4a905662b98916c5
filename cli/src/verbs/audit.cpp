#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>

#include "jobs/audit_text.hpp"
#include "jobs/reply_document.hpp"
#include "jobs/session.hpp"
#include "json_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

struct Arguments {
  SessionFlags session;
  std::string job;
  std::int64_t after = 0;
  bool json = false;
};

// The coordinator gives a page at a time; what is printed is all.
Result<json> read_all(const CoordinatorClient& client, const Arguments& arguments) {
  json all = json::array();
  std::int64_t after = arguments.after;
  while (true) {
    TRIMTAB_TRY(const std::string body,
                client.get("/v1/audit?after=" + std::to_string(after) + "&job=" + percent_encoded(arguments.job)));
    TRIMTAB_TRY(const std::vector<AuditEntry> page, parse_audit(body));
    if (page.empty() || page.back().entry <= after) return json{{"entries", all}};
    after = page.back().entry;
    TRIMTAB_TRY(const json document, parse_reply(body));
    for (const json& entry : document.at("entries")) all.push_back(entry);
  }
}

Result<int> audit(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  TRIMTAB_TRY(const json all, read_all(client, arguments));
  const std::string text = json_text(all);
  if (arguments.json) {
    console.out << text << "\n";
    return 0;
  }
  TRIMTAB_TRY(const std::vector<AuditEntry> entries, parse_audit(text));
  console.out << describe(entries);
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
