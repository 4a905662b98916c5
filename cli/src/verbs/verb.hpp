#pragma once

// What a verb is: a function that adds a subcommand and, when the line names that subcommand, sets what to run. Every
// verb lives in its own verb_*.cpp and knows no other.

#include <functional>
#include <ostream>
#include <string>

#include "base/result.hpp"

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
};

// Runs the verb; the value is the exit code (0, or 1 for "the answer is no", already explained on the console).
using Action = std::function<Result<int>(Console&)>;

// Filled in while the command line is parsed.
struct Selection {
  Action action;
};

using AddVerb = void (*)(CLI::App& root, Selection& selection);

void add_search(CLI::App& root, Selection& selection);
void add_evaluate(CLI::App& root, Selection& selection);
void add_plan(CLI::App& root, Selection& selection);
void add_model(CLI::App& root, Selection& selection);
void add_db(CLI::App& root, Selection& selection);
void add_up(CLI::App& root, Selection& selection);
void add_down(CLI::App& root, Selection& selection);
void add_profile(CLI::App& root, Selection& selection);
void add_tune(CLI::App& root, Selection& selection);
void add_simulate(CLI::App& root, Selection& selection);
void add_status(CLI::App& root, Selection& selection);
void add_trials(CLI::App& root, Selection& selection);
void add_job(CLI::App& root, Selection& selection);
void add_audit(CLI::App& root, Selection& selection);
void add_kill_switch(CLI::App& root, Selection& selection);
void add_cert(CLI::App& root, Selection& selection);
void add_token(CLI::App& root, Selection& selection);
void add_top(CLI::App& root, Selection& selection);
void add_trace(CLI::App& root, Selection& selection);
void add_doctor(CLI::App& root, Selection& selection);
void add_completion(CLI::App& root, Selection& selection);

// Adds a subcommand with a description and an example, which --help prints.
CLI::App* add_verb(CLI::App& root, const std::string& name, const std::string& description, const std::string& example);
// Adds --json.
void add_json(CLI::App* verb, bool& json);
// Adds an option that takes one value. `type` is shown in the help and steers shell completion: FILE, DIR, N, TEXT, or
// the choices separated by '|'.
CLI::Option* add_value(CLI::App* verb, const std::string& name, std::string& value, const std::string& type,
                       const std::string& description);

}  // namespace trimtab::cli
