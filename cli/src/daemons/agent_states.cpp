#include "daemons/agent_states.hpp"

#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "daemons/agent_processes.hpp"

namespace trimtab::cli {

namespace {

namespace fs = std::filesystem;

std::optional<struct stat> directory_at(const fs::path& path) {
  struct stat seen {};
  const bool is_directory = ::stat(path.c_str(), &seen) == 0 && S_ISDIR(seen.st_mode);
  return is_directory ? std::optional(seen) : std::nullopt;
}

using Identity = std::pair<dev_t, ino_t>;

Identity identity_of(const struct stat& seen) {
  return {seen.st_dev, seen.st_ino};
}

// The canonical path, unless that is another directory: what /proc's links say is true in the process' own root alone.
std::string shortest(const fs::path& path, const struct stat& seen) {
  std::error_code failure;
  const fs::path canonical = fs::canonical(path, failure);
  const auto there = failure ? std::nullopt : directory_at(canonical);
  return there && identity_of(*there) == identity_of(seen) ? canonical.string() : path.string();
}

class Collection {
 public:
  void add(const fs::path& directory) {
    const auto seen = directory_at(directory);
    if (!seen || !seen_.insert(identity_of(*seen)).second) return;
    states_.push_back({shortest(directory, *seen), seen->st_uid});
  }
  void add_unreachable(AgentState state) {
    if (std::ranges::find(states_, state.directory, &AgentState::directory) != states_.end()) return;
    states_.push_back(std::move(state));
  }
  // The directories in one, by their names' beginning.
  void add_all_in(const fs::path& parent, std::string_view begin) {
    std::vector<fs::path> found;
    std::error_code failure;
    for (auto entry = fs::directory_iterator(parent, failure); !failure && entry != fs::directory_iterator();
         entry.increment(failure)) {
      if (entry->path().filename().string().starts_with(begin)) found.push_back(entry->path());
    }
    std::ranges::sort(found);
    for (const fs::path& one : found) add(one);
    const auto seen = directory_at(parent);
    if (failure && seen) {
      add_unreachable({parent / (std::string(begin) + "*"), seen->st_uid, "cannot be listed: " + failure.message()});
    }
  }
  [[nodiscard]] std::vector<AgentState> states() && { return std::move(states_); }

 private:
  std::set<Identity> seen_;
  std::vector<AgentState> states_;
};

// Where the agent's root directory is not for this user to look into, its word is taken as if it were this one's.
std::string reached(const AgentProcess& process, const fs::path& root) {
  const fs::path named(process.state);
  const bool is_open = directory_at(fs::path(process.proc) / "root").has_value();
  if (is_open || !named.is_absolute()) return seen_from_here(process, process.state);
  return root / named.relative_path();
}

void add_process(Collection& collection, const AgentProcess& process, const fs::path& root) {
  const std::string whose = "its agent, process " + fs::path(process.proc).filename().string();
  if (process.state.empty()) {
    collection.add_unreachable({process.proc, process.owner, whose + ", does not show where it keeps its state"});
    return;
  }
  const fs::path directory = reached(process, root);
  if (const auto seen = directory_at(directory)) {
    // A process can be called what its user likes: its word counts for a directory of its own, or for an agent's.
    std::error_code failure;
    if (seen->st_uid == process.owner || fs::exists(directory / "agent.db", failure)) collection.add(directory);
    return;
  }
  if (!directory_at(process.proc)) return;  // it has ended meanwhile
  collection.add_unreachable({process.state, process.owner, whose + ", has it where this user finds nothing"});
}

}  // namespace

std::vector<AgentState> up_agent_states(const std::string& up_state) {
  Collection collection;
  collection.add_all_in(fs::path(up_state) / "agents", "");
  return std::move(collection).states();
}

std::vector<AgentState> agent_states(const std::string& up_state, const std::string& root) {
  const fs::path services = fs::path(root) / "var/lib/trimtab";
  Collection collection;
  if (!up_state.empty()) collection.add_all_in(fs::path(up_state) / "agents", "");
  collection.add(services / "agent");
  collection.add_all_in(services, "agent-");
  collection.add_all_in(services / "slurm", "");
  for (const AgentProcess& process : agent_processes(root)) add_process(collection, process, root);
  return std::move(collection).states();
}

std::string user_name(uid_t user) {
  const passwd* found = ::getpwuid(user);
  return found != nullptr ? found->pw_name : "user " + std::to_string(user);
}

}  // namespace trimtab::cli
