#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iterator>

#include "arguments.hpp"
#include "files.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

constexpr std::array<AddVerb, 28> kVerbs{
    add_run,    add_attach,  add_up,       add_down,     add_profile, add_tune,       add_simulate,
    add_search, add_model,   add_evaluate, add_plan,     add_db,      add_status,     add_top,
    add_card,   add_explain, add_trials,   add_incident, add_job,     add_audit,      add_kill_switch,
    add_trace,  add_cert,    add_token,    add_doctor,   add_init,    add_completion, add_keep};

// Their "--" begins a command that is not ours to read: no word of it may be taken for an option or a list.
constexpr std::array<std::string_view, 5> kWithCommand{"run", "init", "tune", "model extract", "plan import"};

bool takes_command(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return false;
  const std::string two = arguments.size() > 1 ? arguments[0] + " " + arguments[1] : "";
  return std::ranges::any_of(kWithCommand, [&](std::string_view verb) { return verb == arguments[0] || verb == two; });
}

// The subcommand that parsing had reached.
const CLI::App* deepest(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  return app;
}

std::string path_of(const CLI::App* app) {
  return app->get_parent() == nullptr ? app->get_name() : path_of(app->get_parent()) + " " + app->get_name();
}

std::vector<std::string> verb_names(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app->get_subcommands([](const CLI::App*) { return true; })) {
    if (!is_hidden(verb)) names.push_back(verb->get_name());
  }
  return names;
}

std::vector<std::string> option_names(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string unknown_option(const CLI::App* app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  return path_of(app) + ": unknown option '" + name + "'" + did_you_mean(name, option_names(app));
}

std::string unknown_verb(const CLI::App* app, const std::string& word) {
  const std::vector<std::string> known = verb_names(app);
  if (known.empty()) return path_of(app) + ": did not expect the argument '" + word + "'";
  return path_of(app) + ": unknown verb '" + word + "'" + did_you_mean(word, known) + " Known are: " + joined(known) +
         ".";
}

// What was wrong, in our words. A word that nobody understood comes first: a misspelt option also leaves a required one
// missing, and the misspelling is what helps.
std::string explain(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App* app = deepest(&root);
  const std::vector<std::string> extra = root.remaining(true);
  const auto option = std::find_if(extra.begin(), extra.end(),
                                   [](const std::string& word) { return word.size() > 1 && word.front() == '-'; });
  const bool verb_missing = !verb_names(app).empty();
  if (!extra.empty() && verb_missing && extra.front().front() != '-') return unknown_verb(app, extra.front());
  if (option != extra.end() && *option != "--") return unknown_option(app, *option);
  if (!extra.empty()) return unknown_verb(app, extra.front());
  if (verb_missing) return path_of(app) + ": needs a verb: " + joined(verb_names(app));
  return path_of(app) + ": " + error.what();
}

int usage_error(const CLI::App& root, const CLI::ParseError& error, Console& console) {
  const CLI::App* app = deepest(&root);
  console.err << explain(root, error) << "\nTry '" << path_of(app) << " --help'.\n";
  return exit_code(ErrorKind::kBadInput);
}

// How --help shows an option: "--seed N  Seed of the random choices (default: 1)".
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_name();
    return (type.empty() ? "" : " " + type) + (option->get_expected_max() > 1 ? " ..." : "");
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string value = option->get_default_str();
    return option->get_description() + (option->get_required() ? " (required)" : "") +
           (value.empty() ? "" : " (default: " + value + ")");
  }
};

// The root of the program's only thread: what nobody expected still ends in words and an exit code.
Result<int> perform(const Action& action, Console& console) {
  try {
    return action(console);
  } catch (const std::exception& failure) {
    return unavailable(std::string("this should not have happened, please report it: ") + failure.what());
  }
}

}  // namespace

CLI::App* add_verb(CLI::App& parent, const std::string& name, const std::string& description,
                   const std::string& example) {
  CLI::App* verb = parent.add_subcommand(name, description);
  verb->footer("Example:\n  " + example);
  return verb;
}

void hide_verb(CLI::App* verb) {
  verb->group("");
}

bool is_hidden(const CLI::App* verb) {
  return verb->get_group().empty();
}

CLI::App& add_group(CLI::App& root, const std::string& name, const std::string& description,
                    const std::string& example) {
  return *add_verb(root, name, description, example)->require_subcommand(1);
}

CLI::Option* add_value(CLI::App* verb, const std::string& name, std::string& value, const std::string& type,
                       const std::string& description, Need need) {
  CLI::Option* option = verb->add_option(name, value, description)->type_name(type)->take_last();
  // What a script's unset variable leaves is not a wish for the usual place.
  if (type == "DIR") option->check([](const std::string& text) { return text.empty() ? "a directory is needed" : ""; });
  if (need == Need::kHasDefault) option->capture_default_str();
  return option->required(need == Need::kRequired);
}

CLI::Option* add_values(CLI::App* verb, const std::string& name, std::vector<std::string>& values,
                        const std::string& type, const std::string& description, Need need) {
  return verb->add_option(name, values, description)->type_name(type)->required(need == Need::kRequired);
}

void add_flag(CLI::App* verb, const std::string& name, bool& value, const std::string& description) {
  verb->add_flag(name, value, description);
}

Status hand_out(const std::string& text, const std::string& path, const std::string& remark, Console& console) {
  if (path.empty() || path == "-") {
    console.out << text;
    return {};
  }
  TRIMTAB_TRY_STATUS(write_file(path, text));
  console.err << remark << "\n";
  return {};
}

void add_action(CLI::App* verb, Selection& selection, bool& json, Action action) {
  add_flag(verb, "--json", json, "Print JSON for machines");
  verb->callback([&selection, action = std::move(action)] { selection.action = action; });
}

std::unique_ptr<CLI::App> command_tree(Selection& selection) {
  auto root =
      std::make_unique<CLI::App>("Measures a training job and keeps it on the fastest plan that fits.", "trimtab");
  root->set_version_flag("--version", std::string("trimtab " TRIMTAB_VERSION));
  root->require_subcommand(1);
  root->formatter(std::make_shared<HelpFormatter>());  // verbs inherit it
  root->footer("Exit codes: 0 success, 1 the answer is no, 2 wrong usage or bad input, 3 something outside failed.");
  for (const AddVerb add : kVerbs) add(*root, selection);
  return root;
}

int run(const std::vector<std::string>& arguments, Console& console) {
  Selection selection;
  const std::unique_ptr<CLI::App> root = command_tree(selection);
  auto ours = arguments.end();
  if (takes_command(arguments)) {
    ours = std::ranges::find(arguments, "--");
    if (ours != arguments.end()) selection.command.assign(ours + 1, arguments.end());
  }
  try {
    root->parse(std::vector<std::string>(std::reverse_iterator(ours), arguments.rend()));
  } catch (const CLI::CallForVersion& version) {
    console.out << version.what() << "\n";
    return 0;
  } catch (const CLI::Success& help) {
    return root->exit(help, console.out, console.err);
  } catch (const CLI::ParseError& error) {
    return usage_error(*root, error, console);
  }
  const Result<int> result = perform(selection.action, console);
  console.out.flush();
  if (result.ok()) return *result;
  console.err << "trimtab: " << result.error().message << "\n";
  return exit_code(result.error().kind);
}

}  // namespace trimtab::cli
