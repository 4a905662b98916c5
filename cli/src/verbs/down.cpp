#include <CLI/CLI.hpp>
#include <memory>

#include "daemons/embedded.hpp"
#include "json_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  std::string state;
  bool json = false;
};

Result<int> down(const Arguments& arguments, Console& console) {
  const SystemClock clock;
  TRIMTAB_TRY(const std::string directory, state_directory(arguments.state));
  TRIMTAB_TRY(const std::vector<std::string> stopped, bring_down(directory, clock));
  if (arguments.json) {
    console.out << json_text({{"stopped", stopped}}) << "\n";
    return 0;
  }
  for (const std::string& process : stopped) console.out << "stopped " << process << "\n";
  if (stopped.empty()) console.out << "nothing is up in " << directory << "\n";
  return 0;
}

}  // namespace

void add_down(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "down", "Stop what 'trimtab up' has started", "trimtab down");
  add_value(verb, "--state", arguments->state, "DIR", "State directory (default: $XDG_STATE_HOME/trimtab)");
  add_json(verb, arguments->json);
  verb->callback([arguments, &selection] {
    selection.action = [arguments](Console& console) { return down(*arguments, console); };
  });
}

}  // namespace trimtab::cli
