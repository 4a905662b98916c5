// `trimtab keep`: the background process of `trimtab run`, which starts it. Not for people.

#include <algorithm>

#include "daemons/keeper.hpp"
#include "run/nodes.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  std::string state;
  std::string shared;
  std::string node;
  std::string job;
  bool first = false;
  bool json = false;
};

Result<int> keep(const Arguments& arguments, Console& /*console*/) {
  const SystemClock clock;
  UpOptions options;
  TRIMTAB_TRY(options.state, state_directory(arguments.state));
  options.programs = program_directory();
  options.port = 0;  // nobody needs to know it, and the usual one may be taken
  options.owned = true;
  Status kept = arguments.shared.empty()
                    ? keep_daemons(options, clock)
                    : keep_node({options, arguments.shared, arguments.node, arguments.job, arguments.first}, clock);
  if (kept.ok()) return 0;
  // One line, which the run that waits for these daemons shows.
  Error error = kept.error();
  std::ranges::replace(error.message, '\n', ' ');
  return error;
}

}  // namespace

void add_keep(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "keep", "Keep daemons up while a 'trimtab run' needs them; it starts this itself",
                            "trimtab keep --state DIR");
  hide_verb(verb);
  add_value(verb, "--state", arguments->state, "DIR", "State directory", Need::kRequired);
  add_value(verb, "--shared", arguments->shared, "DIR", "Folder of the job's authority, of several nodes");
  add_value(verb, "--node", arguments->node, "NAME", "This node, of several");
  add_value(verb, "--job", arguments->job, "NAME", "What the first node calls the job");
  add_flag(verb, "--first", arguments->first, "Start the coordinator of several nodes");
  add_action(verb, selection, arguments, keep);
}

}  // namespace trimtab::cli
