// `kill-switch` speaks to nobody: it makes, removes or looks at a file in the state directories of this machine's
// agents, which agents and ranks look at by themselves (docs/protocols.md).

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "daemons/agent_states.hpp"
#include "daemons/kill_switches.hpp"
#include "daemons/up_state.hpp"
#include "json_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  std::string state;
  std::string agent_state;
  bool json = false;
};

// `up`: empty = the environment names no place where one could be.
std::string nothing_found(const Arguments& arguments, const std::string& up) {
  const std::string there = up.empty() ? "" : "below " + up + "/agents";
  const std::string elsewhere =
      "at /var/lib/trimtab/agent, /var/lib/trimtab/agent-* or /var/lib/trimtab/slurm/*, and no agent runs here";
  const std::string both = there.empty() ? elsewhere : there + " nor " + elsewhere;
  return "no agent's state is " + (arguments.state.empty() ? both : there) +
         ". Name the directory that the agent was started with: --agent-state DIR";
}

// Of the agent that is named; else of those of the `up` that is named; else of all on this machine.
Result<std::vector<AgentState>> chosen_states(const Arguments& arguments) {
  if (!arguments.agent_state.empty()) {
    std::error_code failure;
    if (!std::filesystem::is_directory(arguments.agent_state, failure)) {
      return bad_input("--agent-state: " + arguments.agent_state + " is no directory");
    }
    return std::vector<AgentState>{{arguments.agent_state, ::geteuid()}};
  }
  const auto place = state_directory(arguments.state);
  const std::string up = place.ok() ? *place : "";
  std::vector<AgentState> states = arguments.state.empty() ? agent_states(up) : up_agent_states(up);
  if (!states.empty()) return states;
  return bad_input(nothing_found(arguments, up));
}

std::string text_of(const KillSwitch& one) {
  if (one.thrown) return one.file + ": " + (*one.thrown ? "thrown" : "not thrown") + "\n";
  return one.file + ": " + (one.left_alone ? "left alone, " : "not reached, ") + one.why + "\n";
}

nlohmann::json json_of(const KillSwitch& one) {
  if (one.thrown) return {{"file", one.file}, {"thrown", *one.thrown}};
  return {{"file", one.file}, {"thrown", nullptr}, {"why", one.why}};
}

Result<int> carry_out(SwitchOrder order, const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const std::vector<AgentState> states, chosen_states(arguments));
  const std::vector<KillSwitch> switches = order_switches(order, states, ::geteuid());
  nlohmann::json list = nlohmann::json::array();
  std::string text;
  for (const KillSwitch& one : switches) {
    list.push_back(json_of(one));
    text += text_of(one);
  }
  console.out << (arguments.json ? json_text({{"switches", list}}, 2) + "\n" : text);
  TRIMTAB_TRY_STATUS(order_outcome(switches));
  return 0;
}

void add_part(CLI::App* group, Selection& selection, SwitchOrder order, const char* name, const char* description) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(*group, name, description, "trimtab kill-switch " + std::string(name));
  add_value(verb, "--state", arguments->state, "DIR",
            "State directory of one 'trimtab up', whose agents alone are meant");
  add_value(verb, "--agent-state", arguments->agent_state, "DIR", "State directory of one agent, which alone is meant");
  add_json(verb, arguments->json);
  verb->callback([arguments, order, &selection] {
    selection.action = [arguments, order](Console& console) { return carry_out(order, *arguments, console); };
  });
}

}  // namespace

void add_kill_switch(CLI::App& root, Selection& selection) {
  CLI::App* group =
      add_verb(root, "kill-switch", "Keep the ranks on this machine on their incumbent plan, coordinator or not",
               "trimtab kill-switch throw");
  group->require_subcommand(1);
  add_part(group, selection, SwitchOrder::kThrow, "throw", "Trials end and no plan changes until it is released");
  add_part(group, selection, SwitchOrder::kRelease, "release", "Let plans change again");
  add_part(group, selection, SwitchOrder::kShow, "show", "Print where the switches are, and whether they are thrown");
}

}  // namespace trimtab::cli
