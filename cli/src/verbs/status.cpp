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
  bool json = false;
};

Result<int> status(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  TRIMTAB_TRY(const std::string body, client.get("/v1/status"));
  TRIMTAB_TRY(const api::ClusterStatus cluster, read_reply<api::ClusterStatus>(body));
  console.out << (arguments.json ? body + "\n" : describe(cluster));
  return 0;
}

}  // namespace

void add_status(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      add_verb(root, "status", "Show the coordinator's nodes and jobs", "trimtab status --coordinator 127.0.0.1:7420");
  add_coordinator_flags(verb, arguments->session);
  add_json(verb, arguments->json);
  verb->callback([arguments, &selection] {
    selection.action = [arguments](Console& console) { return status(*arguments, console); };
  });
}

}  // namespace trimtab::cli
