#include "run/node_state.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "daemons/embedded.hpp"
#include "daemons/keeper.hpp"
#include "files.hpp"
#include "run/shared_folder.hpp"
#include "schema/state_directory.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

std::string keeper_file(const std::string& state_directory) {
  return state_directory + "/keeper";
}

// A home that several machines share has the daemons of one of them in up.json; those of the others stand beside it.
Result<std::string> directory_of_this_host(const std::string& state_directory) {
  const auto state = recorded_state(state_directory);
  if (!state || state->host.empty() || state->host == host_name()) return state_directory;
  std::string own = state_directory + "/hosts/" + host_name();
  TRIMTAB_TRY_STATUS(make_own_directories(state_directory, own));
  return own;
}

// Of this user alone, on this node's own disk: no other node may meet the daemons' databases there.
Result<std::string> local_directory(const Variables& variables) {
  const std::string temporary = value_of(variables, "TMPDIR");
  std::string path = (temporary.empty() ? "/tmp" : temporary) + "/trimtab-" + std::to_string(geteuid());
  TRIMTAB_TRY_STATUS(make_private_directories(path));
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & 022U) != 0) {
    return unavailable(
        path +
        ": is another user's, or others may write in it; set TMPDIR, or name a directory of this node by --state");
  }
  return path;
}

Result<NodeState> one_of_several(const WatchRequest& request, const LaunchFacts& facts) {
  NodeState node;
  node.folder = request.shared.empty() ? request.beside + "/.nodes-" + facts.step : request.shared;
  std::error_code failure;
  node.folder = std::filesystem::absolute(node.folder, failure).lexically_normal().string();
  node.node = facts.node.empty() ? host_name() : facts.node;
  TRIMTAB_TRY(const SharedFolder folder, SharedFolder::open(node.folder));
  node.by_scheduler = facts.first_node.has_value();
  node.first = facts.first_node.value_or(false);
  if (!node.by_scheduler) {
    TRIMTAB_TRY(node.first, folder.claim(node.node));
  }
  const std::string place = "/nodes-" + std::to_string(std::hash<std::string>{}(node.folder)) + "-" + node.node;
  TRIMTAB_TRY(const std::string base, request.session.state.empty() ? local_directory(request.variables)
                                                                    : state_directory(request.session.state));
  node.state = base + place;
  return node;
}

}  // namespace

std::string NodeState::waits_for() const {
  if (!several()) return "their logs are in " + state;
  if (first) return "the logs are in " + state + " on " + node;
  const auto opened = SharedFolder::open(folder);
  const auto told = opened.ok() ? opened->told() : std::nullopt;
  if (told) {
    return "the coordinator on " + told->node + " does not answer from here, at port " + std::to_string(told->port) +
           " of " + joined(told->hosts) + ": open it between the nodes";
  }
  const std::string who = opened.ok() ? opened->claimed_by() : "";
  return "this node waits for the first one" + (who.empty() ? "" : ", " + who + ",") + " to tell its coordinator in " +
         folder + ", which all nodes must see";
}

Result<std::string> NodeState::told_job() const {
  TRIMTAB_TRY(const SharedFolder opened, SharedFolder::open(folder));
  const auto told = opened.told();
  if (!told) return unavailable(folder + " no longer says where the job's coordinator is");
  return told->job;
}

Result<NodeState> node_state(const WatchRequest& request, const LaunchFacts& facts) {
  if (facts.several_nodes || !request.shared.empty()) return one_of_several(request, facts);
  NodeState node;
  TRIMTAB_TRY(const std::string directory, state_directory(request.session.state));
  TRIMTAB_TRY(node.state, directory_of_this_host(directory));
  if (facts.before_srun) {
    node.note =
        "this runs on one node of an allocation of several: only ranks of this node are seen. Put it behind srun: "
        "srun … trimtab run -- COMMAND";
  }
  return node;
}

Result<ProcessIdentity> start_keeper(const NodeState& node, const std::string& job) {
  std::vector<std::string> command{program_directory() + "/trimtab", "keep", "--state", node.state};
  if (node.several()) {
    command.insert(command.end(), {"--shared", node.folder, "--node", node.node, "--job", job});
    if (node.first) command.emplace_back("--first");
  }
  remove_if_there(keeper_log(node.state));
  return start_in_background(command, keeper_log(node.state));
}

Status record_keeper(const std::string& state_directory, const ProcessIdentity& keeper) {
  return replace_file(keeper_file(state_directory),
                      std::to_string(keeper.pid) + " " + std::to_string(keeper.start_time));
}

ProcessIdentity recorded_keeper(const std::string& state_directory) {
  ProcessIdentity keeper;
  const auto text = read_own_file(keeper_file(state_directory));
  if (text.ok()) std::istringstream(*text) >> keeper.pid >> keeper.start_time;
  return keeper;
}

}  // namespace trimtab::cli
