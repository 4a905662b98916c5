// `kill-switch` speaks to nobody: it makes, removes or looks at a file in the state directories of this machine's
// agents, which agents and ranks look at by themselves (docs/protocols.md).

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "files.hpp"
#include "json_text.hpp"
#include "up_state.hpp"
#include "verb.hpp"

namespace trimtab::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "kill-switch";
constexpr const char* kSystemAgent = "/var/lib/trimtab/agent";

struct Arguments {
  std::string state;
  std::string agent_state;
  bool json = false;
};

// Of the agent that is named; else of those that `up` started; else of the machine's own.
Result<std::vector<std::string>> switches(const Arguments& arguments) {
  std::vector<std::string> files;
  std::error_code failure;
  if (!arguments.agent_state.empty()) {
    if (!fs::is_directory(arguments.agent_state, failure)) {
      return bad_input("--agent-state: " + arguments.agent_state + " is no directory");
    }
    return std::vector<std::string>{arguments.agent_state + "/" + kFile};
  }
  const std::string embedded = state_directory(arguments.state) + "/agents";
  for (auto entry = fs::directory_iterator(embedded, failure); !failure && entry != fs::directory_iterator();
       entry.increment(failure)) {
    if (entry->is_directory(failure)) files.push_back(entry->path().string() + "/" + kFile);
  }
  std::sort(files.begin(), files.end());
  if (files.empty() && fs::is_directory(kSystemAgent, failure))
    files.push_back(std::string(kSystemAgent) + "/" + kFile);
  if (!files.empty()) return files;
  return bad_input("no agent's state is below " + embedded + " nor at " + kSystemAgent +
                   ". Name the directory that the agent was started with: --agent-state DIR");
}

bool is_thrown(const std::string& file) {
  std::error_code failure;
  return fs::symlink_status(file, failure).type() != fs::file_type::not_found;
}

Result<int> show(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const std::vector<std::string> files, switches(arguments));
  nlohmann::json list = nlohmann::json::array();
  std::string text;
  for (const std::string& file : files) {
    list.push_back({{"file", file}, {"thrown", is_thrown(file)}});
    text += file + ": " + (is_thrown(file) ? "thrown" : "not thrown") + "\n";
  }
  console.out << (arguments.json ? json_text({{"switches", list}}, 2) + "\n" : text);
  return 0;
}

Result<int> throw_all(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const std::vector<std::string> files, switches(arguments));
  for (const std::string& file : files) {
    if (!is_thrown(file)) TRIMTAB_TRY_STATUS(write_file(file, ""));
  }
  return show(arguments, console);
}

Result<int> release_all(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const std::vector<std::string> files, switches(arguments));
  for (const std::string& file : files) {
    std::error_code failure;
    fs::remove(file, failure);
    if (failure) return unavailable("cannot remove " + file + ": " + failure.message());
  }
  return show(arguments, console);
}

void add_part(CLI::App* group, Selection& selection, Result<int> (*run)(const Arguments&, Console&), const char* name,
              const char* description) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(*group, name, description, "trimtab kill-switch " + std::string(name));
  add_value(verb, "--state", arguments->state, "DIR", "State directory of 'trimtab up'");
  add_value(verb, "--agent-state", arguments->agent_state, "DIR", "State directory of one agent");
  add_json(verb, arguments->json);
  verb->callback([arguments, run, &selection] {
    selection.action = [arguments, run](Console& console) { return run(*arguments, console); };
  });
}

}  // namespace

void add_kill_switch(CLI::App& root, Selection& selection) {
  CLI::App* group =
      add_verb(root, "kill-switch", "Keep the ranks on this machine on their incumbent plan, coordinator or not",
               "trimtab kill-switch throw");
  group->require_subcommand(1);
  add_part(group, selection, throw_all, "throw", "Trials end and no plan changes until it is released");
  add_part(group, selection, release_all, "release", "Let plans change again");
  add_part(group, selection, show, "show", "Print where the switches are, and whether they are thrown");
}

}  // namespace trimtab::cli
