#include "costs/share_costs.hpp"
#include "jobs/session.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  std::string database;
  std::string hardware;
  std::string contributor;
  SessionFlags session;
  bool json = false;
};

Result<int> push(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  return push_costs(client, arguments.database, arguments.hardware, arguments.json, console);
}

Result<int> pull(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  return pull_costs(client, arguments.database, arguments.json, console);
}

Result<int> remove(const Arguments& arguments, Console& console) {
  if (!arguments.database.empty() && !arguments.session.coordinator.empty()) {
    return bad_input("db remove: costs are removed from " + arguments.database + " or from the coordinator " +
                     arguments.session.coordinator + ": name one of the two");
  }
  if (!arguments.database.empty()) {
    return remove_costs(arguments.contributor, arguments.database, arguments.json, console);
  }
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  return remove_costs(arguments.contributor, client, arguments.json, console);
}

}  // namespace

void add_db_sharing(CLI::App& db, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(db, "push", "Contribute a database's costs to a coordinator; pushing twice changes nothing",
                            "trimtab db push costs.db --coordinator c0.lab:7420");
  add_action(verb, selection, arguments, push);
  add_value(verb, "database", arguments->database, "FILE", "Cost database", Need::kRequired);
  add_value(verb, "--hardware", arguments->hardware, "HASH", "Of this fingerprint only (a prefix will do)");
  add_coordinator_flags(verb, arguments->session);
  arguments = std::make_shared<Arguments>();
  verb = add_verb(db, "pull", "Merge a coordinator's costs into a database; batches that both have count once",
                  "trimtab db pull costs.db --coordinator c0.lab:7420");
  add_action(verb, selection, arguments, pull);
  add_value(verb, "database", arguments->database, "FILE", "Cost database to add to, made when missing",
            Need::kRequired);
  add_coordinator_flags(verb, arguments->session);
  arguments = std::make_shared<Arguments>();
  verb = add_verb(db, "remove", "Remove what one contributor has pushed, from a database or from a coordinator",
                  "trimtab db remove costs.db --contributor ana");
  add_action(verb, selection, arguments, remove);
  add_value(verb, "database", arguments->database, "FILE", "Cost database (default: the coordinator's)");
  add_value(verb, "--contributor", arguments->contributor, "NAME", "Whose costs", Need::kRequired);
  add_coordinator_flags(verb, arguments->session);
}

}  // namespace trimtab::cli
