// The embedded daemons of this machine: `up` and `down`.

#include "arguments.hpp"
#include "daemons/embedded.hpp"
#include "json_text.hpp"
#include "terminal_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  std::string state;
  std::string agents = "1";
  std::string devices = "1";
  std::string port = "7420";
  std::string memory;
  bool json = false;
};

Result<std::uint32_t> count_in(const std::string& flag, const std::string& text, std::uint32_t low,
                               std::uint32_t high) {
  TRIMTAB_TRY(const std::uint64_t value, parse_count(flag, text));
  if (value >= low && value <= high) return static_cast<std::uint32_t>(value);
  return bad_input(flag + ": expected " + std::to_string(low) + " to " + std::to_string(high) + ", but found " + text);
}

Result<UpOptions> options_of(const Arguments& arguments) {
  UpOptions options;
  TRIMTAB_TRY(options.state, state_directory(arguments.state));
  options.programs = program_directory();
  TRIMTAB_TRY(options.agents, count_in("--agents", arguments.agents, 1, 64));
  TRIMTAB_TRY(options.devices, count_in("--devices", arguments.devices, 1, 1024));
  TRIMTAB_TRY(const std::uint32_t port, count_in("--port", arguments.port, 0, 65535));
  options.port = static_cast<std::uint16_t>(port);
  if (arguments.memory.empty()) return options;
  const auto memory = parse_bytes(arguments.memory);
  if (!memory.ok()) return wrap("--memory", memory.error());
  options.memory = *memory;
  return options;
}

void print(const UpOptions& options, const UpOutcome& outcome, bool as_json, Console& console) {
  const UpState& state = outcome.state;
  if (as_json) {
    auto document = nlohmann::json::parse(to_json(state));
    document["was_up"] = outcome.was_up;
    document["restarted"] = outcome.restarted;
    document["state"] = options.state;
    console.out << json_text(document, 2) << "\n";
    return;
  }
  for (const std::string& process : outcome.left_over) console.out << "stopped a left-over " << process << "\n";
  for (const std::string& process : outcome.restarted) console.out << "started again: " << process << "\n";
  console.out << (outcome.was_up ? "already up: " : "up: ") << "coordinator on 127.0.0.1:" << state.port << ", "
              << state.processes.size() - 1 << (state.processes.size() == 2 ? " agent, " : " agents, ") << state.devices
              << (state.devices == 1 ? " device" : " devices") << "; state and logs in " << options.state << "\n";
}

Result<int> up(const Arguments& arguments, Console& console) {
  const SystemClock clock;
  TRIMTAB_TRY(const UpOptions options, options_of(arguments));
  TRIMTAB_TRY(const UpOutcome outcome, bring_up(options, clock));
  print(options, outcome, arguments.json, console);
  const bool other = outcome.state.processes.size() != options.agents + 1U ||
                     outcome.state.devices != static_cast<std::int32_t>(options.agents * options.devices);
  if (outcome.was_up && other) {
    console.err
        << "trimtab: it stays as it was started; 'trimtab down' first to change the number of agents or devices\n";
  }
  return 0;
}

Result<int> down(const Arguments& arguments, Console& console) {
  const SystemClock clock;
  TRIMTAB_TRY(const std::string directory, state_directory(arguments.state));
  TRIMTAB_TRY(const DownOutcome outcome, bring_down(directory, clock));
  const std::vector<std::string>& stopped = outcome.stopped;
  if (arguments.json) {
    console.out << json_text({{"stopped", stopped}, {"jobs", outcome.jobs}, {"left_alone", outcome.left_alone}})
                << "\n";
    return 0;
  }
  for (const std::string& job : outcome.jobs) {
    console.out << "ended the job " << printable(job) << ": it is over, and is not begun again by itself\n";
  }
  for (const std::string& process : stopped) console.out << "stopped " << process << "\n";
  for (const std::string& process : outcome.left_alone) {
    console.out << "left alone " << printable(process) << ": up.json names it, and it is no daemon of yours\n";
  }
  if (stopped.empty()) console.out << "nothing is up in " << directory << "\n";
  return 0;
}

}  // namespace

void add_up(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "up", "Start a coordinator and agents on this machine", "trimtab up --devices 2");
  add_value(verb, "--agents", arguments->agents, "N", "How many agents (nodes)", Need::kHasDefault);
  add_value(verb, "--devices", arguments->devices, "N", "Devices (ranks) of each agent", Need::kHasDefault);
  add_value(verb, "--port", arguments->port, "PORT", "The coordinator's port; 0 = any free one", Need::kHasDefault);
  add_value(verb, "--memory", arguments->memory, "BYTES", "Memory of a device, such as 700MiB (default: a fair share)");
  add_value(verb, "--state", arguments->state, "DIR", "State directory (default: $XDG_STATE_HOME/trimtab)");
  add_action(verb, selection, arguments, up);
}

void add_down(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "down", "Stop what 'trimtab up' has started", "trimtab down");
  add_value(verb, "--state", arguments->state, "DIR", "State directory (default: $XDG_STATE_HOME/trimtab)");
  add_action(verb, selection, arguments, down);
}

}  // namespace trimtab::cli
