// `trimtab attach`: what `run` sets, for processes that somebody else starts; and those that run without.

#include <unistd.h>

#include "arguments.hpp"
#include "daemons/process.hpp"
#include "daemons/up_state.hpp"
#include "json_text.hpp"
#include "run/attach_text.hpp"
#include "run/job_name.hpp"
#include "run/parts.hpp"
#include "run/training_processes.hpp"
#include "run/watching.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

struct Arguments {
  SessionFlags session;
  std::string format = "shell";
  std::string name = "job";
  std::string socket;
  bool list = false;
  bool json = false;
};

std::string rank_text(const RankFacts& rank) {
  if (rank.launcher.empty()) return "";
  return std::to_string(rank.rank) + " of " + std::to_string(rank.world_size) + " (" + rank.launcher + ")";
}

int list_processes(const Arguments& arguments, Console& console) {
  const std::vector<TrainingProcess> found = unwatched_processes(geteuid());
  TextTable table({">pid", "rank", "command"});
  json list = json::array();
  for (const TrainingProcess& process : found) {
    const std::string command = printable(joined(process.command, " "));
    table.add({std::to_string(process.pid), rank_text(process.rank), cut(command, 100)});
    json one = {{"pid", process.pid}, {"command", process.command}};
    if (!process.rank.launcher.empty()) {
      one["rank"] = process.rank.rank;
      one["world_size"] = process.rank.world_size;
    }
    list.push_back(one);
  }
  if (arguments.json) {
    console.out << json_text({{"processes", list}}, 2) << "\n";
  } else if (table.empty()) {
    console.out << "no process of this user has PyTorch, CUDA or NCCL loaded and lacks Trimtab's library\n";
  } else {
    console.out << table.str()
                << "a process is watched from its start alone: start it again behind 'trimtab run --', or with what "
                   "'trimtab attach' prints\n";
  }
  return 0;
}

// Into a container goes nothing of this shell's own paths.
bool is_for_elsewhere(const std::string& format) {
  return format == "docker" || format == "kubernetes";
}

Result<int> attach(const Arguments& arguments, Console& console) {
  if (arguments.list) return list_processes(arguments, console);
  const std::string format = arguments.json ? "json" : arguments.format;
  TRIMTAB_TRY_STATUS(check_choice("--format", format, {"shell", "env", "json", "docker", "kubernetes"}));
  TRIMTAB_TRY_STATUS(check_job_name(arguments.name));
  TRIMTAB_TRY(const WatchParts parts, watch_parts(program_directory()));
  const auto state = state_directory(arguments.session.state);
  TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(arguments.session));
  TRIMTAB_TRY([[maybe_unused]] const std::string answer, client.get("/v1/status", std::chrono::seconds(3)));
  const Variables own = own_variables();
  TRIMTAB_TRY(const std::string socket, agent_socket_here(arguments.socket, state.ok() ? *state : "", own));
  const WatchPlaces places{socket, arguments.name, parts.library, parts.client};
  const VariableChanges changes = watch_changes(is_for_elsewhere(format) ? Variables{} : own, places);
  if (format == "shell") console.out << shell_exports(changes);
  if (format == "env") console.out << variable_lines(changes);
  if (format == "json") console.out << variables_json(changes);
  if (format == "docker") console.out << docker_options(changes, places);
  if (format == "kubernetes") console.out << kubernetes_parts(changes, places);
  return 0;
}

}  // namespace

void add_attach(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "attach", "Print the environment by which processes that you start are watched",
                            "eval \"$(trimtab attach --name train)\"");
  add_value(verb, "--format", arguments->format, "shell|env|json|docker|kubernetes", "How", Need::kHasDefault);
  add_value(verb, "--name", arguments->name, "NAME", "What the job is called", Need::kHasDefault);
  add_value(verb, "--agent-socket", arguments->socket, "FILE", "The socket of the agent that is to watch them");
  add_flag(verb, "--list", arguments->list, "List your processes that look like training and are not watched");
  add_coordinator_flags(verb, arguments->session);
  add_action(verb, selection, arguments, attach);
}

}  // namespace trimtab::cli
