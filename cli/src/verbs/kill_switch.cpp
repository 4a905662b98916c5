// `kill-switch` speaks to nobody: it makes, removes or looks at a file in the state directories of this machine's
// agents, which agents and ranks look at by themselves (docs/protocols.md).

#include "verbs/kill_switch.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "daemons/up_state.hpp"
#include "files.hpp"
#include "json_text.hpp"
#include "terminal_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

constexpr const char* kFile = "kill-switch";

std::string reason(const std::string& action) {
  return action + ": " + std::strerror(errno);
}

// These return why it failed; empty = done.

std::string throw_kill_switch(const std::string& file) {
  // Whatever has the name is a switch that is thrown, a link too; nothing is written through one.
  const Descriptor made(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  return made.get() >= 0 || errno == EEXIST ? "" : reason("cannot be made");
}

std::string release_kill_switch(const std::string& file) {
  std::error_code failure;
  std::filesystem::remove(file, failure);
  return failure ? "cannot be removed: " + failure.message() : "";
}

std::string obey(KillSwitchOrder order, const std::string& file) {
  if (order == KillSwitchOrder::kThrow) return throw_kill_switch(file);
  if (order == KillSwitchOrder::kRelease) return release_kill_switch(file);
  return "";
}

std::string look(const std::string& file, std::optional<bool>& thrown) {
  struct stat seen {};
  thrown = ::lstat(file.c_str(), &seen) == 0;
  if (*thrown || errno == ENOENT) return "";
  thrown.reset();
  return reason("cannot be looked at");
}

KillSwitch order_one(KillSwitchOrder order, const AgentState& state, uid_t caller) {
  KillSwitch one{state.directory + "/" + kFile, std::nullopt};
  std::string why = state.unreachable;
  if (why.empty()) why = obey(order, one.file);
  if (why.empty()) why = look(one.file, one.thrown);
  if (why.empty()) return one;
  one.left_alone = caller != 0 && caller != state.owner;
  one.why = one.left_alone ? "it belongs to " + user_name(state.owner) + ": " + why : why;
  return one;
}

std::string list_of(const std::vector<KillSwitch>& kill_switches) {
  return joined(kill_switches, "; ", [](const KillSwitch& one) { return one.file + ": " + one.why; });
}

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

Result<int> carry_out(KillSwitchOrder order, const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const std::vector<AgentState> states, chosen_states(arguments));
  const std::vector<KillSwitch> kill_switches = order_kill_switches(order, states, ::geteuid());
  nlohmann::json list = nlohmann::json::array();
  std::string text;
  for (const KillSwitch& one : kill_switches) {
    list.push_back(json_of(one));
    text += text_of(one);
  }
  console.out << (arguments.json ? json_text({{"switches", list}}, 2) + "\n" : text);
  TRIMTAB_TRY_STATUS(order_outcome(kill_switches));
  return 0;
}

void add_part(CLI::App& group, Selection& selection, KillSwitchOrder order, const char* name, const char* description) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(group, name, description, "trimtab kill-switch " + std::string(name));
  add_value(verb, "--state", arguments->state, "DIR",
            "State directory of one 'trimtab up', whose agents alone are meant");
  add_value(verb, "--agent-state", arguments->agent_state, "DIR", "State directory of one agent, which alone is meant");
  add_action(verb, selection, arguments->json,
             [arguments, order](Console& console) { return carry_out(order, *arguments, console); });
}

}  // namespace

std::vector<KillSwitch> order_kill_switches(KillSwitchOrder order, const std::vector<AgentState>& states,
                                            uid_t caller) {
  std::vector<KillSwitch> kill_switches;
  for (const AgentState& state : states) kill_switches.push_back(order_one(order, state, caller));
  return kill_switches;
}

Status order_outcome(const std::vector<KillSwitch>& kill_switches) {
  std::vector<KillSwitch> failed;
  std::ranges::copy_if(kill_switches, std::back_inserter(failed),
                       [](const KillSwitch& one) { return !one.thrown && !one.left_alone; });
  if (!failed.empty()) {
    return unavailable("not every kill switch was reached, and ranks there may still change their plans: " +
                       list_of(failed) + ". Mend that, or name the agent's state by --agent-state DIR");
  }
  if (std::ranges::any_of(kill_switches, [](const KillSwitch& one) { return one.thrown.has_value(); })) return {};
  return unavailable("no kill switch could be reached: " + list_of(kill_switches) +
                     ". Ask as root or as their user, or name another agent's state by --agent-state DIR");
}

void add_kill_switch(CLI::App& root, Selection& selection) {
  CLI::App& group =
      add_group(root, "kill-switch", "Keep the ranks on this machine on their incumbent plan, coordinator or not",
                "trimtab kill-switch throw");
  add_part(group, selection, KillSwitchOrder::kThrow, "throw", "Trials end and no plan changes until it is released");
  add_part(group, selection, KillSwitchOrder::kRelease, "release", "Let plans change again");
  add_part(group, selection, KillSwitchOrder::kShow, "show",
           "Print where the switches are, and whether they are thrown");
}

}  // namespace trimtab::cli
