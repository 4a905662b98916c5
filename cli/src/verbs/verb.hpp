#pragma once

// What a verb is: a function that adds a subcommand and, when the line names that subcommand, sets what to run. Verbs
// know no other verbs.

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "ignored_signals.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace trimtab::cli {

// Where a verb writes. Answers go to `out`, remarks and progress to `err`, so that --json output stays clean.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;
  bool out_is_terminal = false;
  IgnoredSignals ignored = {};
};

// Runs the verb; the value is the exit code (0, or 1 for "the answer is no", already explained on the console).
using Action = std::function<Result<int>(Console&)>;

// Filled in while the command line is parsed.
struct Selection {
  Action action;
  std::vector<std::string> command;  // of a verb that takes one: the words behind the first "--", as they were
};

using AddVerb = void (*)(CLI::App& root, Selection& selection);

void add_search(CLI::App& root, Selection& selection);
void add_evaluate(CLI::App& root, Selection& selection);
void add_plan(CLI::App& root, Selection& selection);
// Of the group `plan`.
void add_plan_import(CLI::App& plan, Selection& selection);
void add_plan_find(CLI::App& plan, Selection& selection);
void add_plan_estimate(CLI::App& plan, Selection& selection);
void add_model(CLI::App& root, Selection& selection);
void add_db(CLI::App& root, Selection& selection);
// Of the group `db`.
void add_db_sharing(CLI::App& db, Selection& selection);
void add_up(CLI::App& root, Selection& selection);
void add_down(CLI::App& root, Selection& selection);
void add_profile(CLI::App& root, Selection& selection);
void add_tune(CLI::App& root, Selection& selection);
void add_run(CLI::App& root, Selection& selection);
void add_attach(CLI::App& root, Selection& selection);
void add_keep(CLI::App& root, Selection& selection);
void add_simulate(CLI::App& root, Selection& selection);
void add_status(CLI::App& root, Selection& selection);
void add_trials(CLI::App& root, Selection& selection);
void add_incident(CLI::App& root, Selection& selection);
void add_job(CLI::App& root, Selection& selection);
void add_audit(CLI::App& root, Selection& selection);
void add_kill_switch(CLI::App& root, Selection& selection);
void add_cert(CLI::App& root, Selection& selection);
void add_token(CLI::App& root, Selection& selection);
void add_top(CLI::App& root, Selection& selection);
void add_card(CLI::App& root, Selection& selection);
void add_explain(CLI::App& root, Selection& selection);
void add_trace(CLI::App& root, Selection& selection);
void add_doctor(CLI::App& root, Selection& selection);
void add_init(CLI::App& root, Selection& selection);
void add_completion(CLI::App& root, Selection& selection);

// Adds a subcommand with a description and an example, which --help prints.
CLI::App* add_verb(CLI::App& parent, const std::string& name, const std::string& description,
                   const std::string& example);
// The same, of one that needs a further verb.
CLI::App& add_group(CLI::App& root, const std::string& name, const std::string& description,
                    const std::string& example);

// For trimtab's own use: people are not shown it.
void hide_verb(CLI::App* verb);
[[nodiscard]] bool is_hidden(const CLI::App* verb);

// What a value may be: left out, or not, or left out with a default that --help shows.
enum class Need { kOptional, kRequired, kHasDefault };
// Adds an option that takes one value. `type` is shown in the help and steers shell completion: FILE, DIR, N, TEXT, or
// the choices separated by '|'.
CLI::Option* add_value(CLI::App* verb, const std::string& name, std::string& value, const std::string& type,
                       const std::string& description, Need need = Need::kOptional);
// The same with as many values as there are words.
CLI::Option* add_values(CLI::App* verb, const std::string& name, std::vector<std::string>& values,
                        const std::string& type, const std::string& description, Need need = Need::kOptional);
void add_flag(CLI::App* verb, const std::string& name, bool& value, const std::string& description);

// Writes `text` to a file and says `remark`; without a path, or to "-", to standard output.
[[nodiscard]] Status hand_out(const std::string& text, const std::string& path, const std::string& remark,
                              Console& console);

// Adds --json, and runs `action` where the line names this verb.
void add_action(CLI::App* verb, Selection& selection, bool& json, Action action);
template <typename Arguments>
void add_action(CLI::App* verb, Selection& selection, const std::shared_ptr<Arguments>& arguments,
                Result<int> (*body)(const Arguments&, Console&)) {
  add_action(verb, selection, arguments->json,
             [arguments, body](Console& console) { return body(*arguments, console); });
}
// The same of a verb that takes a command behind "--".
template <typename Arguments>
void add_action(CLI::App* verb, Selection& selection, const std::shared_ptr<Arguments>& arguments,
                Result<int> (*body)(const Arguments&, const std::vector<std::string>&, Console&)) {
  add_action(verb, selection, arguments->json,
             [arguments, &selection, body](Console& console) { return body(*arguments, selection.command, console); });
}

}  // namespace trimtab::cli
