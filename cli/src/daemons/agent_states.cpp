#include "daemons/agent_states.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "agent/configuration.hpp"
#include "files.hpp"

namespace trimtab::cli {

namespace {

namespace fs = std::filesystem;

// As many as can be listed.
std::vector<fs::path> entries_of(const fs::path& directory, std::error_code& failure) {
  std::vector<fs::path> entries;
  for (auto entry = fs::directory_iterator(directory, failure); !failure && entry != fs::directory_iterator();
       entry.increment(failure)) {
    entries.push_back(entry->path());
  }
  return entries;
}

// An agent that runs on this machine, whoever started it: what /proc says of a process of the program's name.
struct AgentProcess {
  std::string proc;  // its directory in /proc
  uid_t owner = 0;
  std::string state;  // its state directory, in its own words: relative to where it runs, or absolute in its own root
                      // directory; empty = it cannot be known to this user
};

// A path that reaches from here what `path` is to the process. Only its own user and root may follow it.
std::string seen_from_here(const AgentProcess& process, const std::string& path) {
  const fs::path named(path);
  const fs::path proc(process.proc);
  return named.is_absolute() ? proc / "root" / named.relative_path() : proc / "cwd" / named;
}

constexpr std::string_view kProgram = "trimtab-agent";
constexpr const char* kUsualFile = "/etc/trimtab/agent.toml";

// Of a text whose words each end with a zero byte, as /proc writes command lines and environments.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// The value of "FLAG VALUE" or "FLAG=VALUE"; empty where there is none.
std::string flag_value(const std::vector<std::string>& words, const std::string& flag) {
  std::string value;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == flag && i + 1 < words.size()) value = words[i + 1];
    if (words[i].starts_with(flag + "=")) value = words[i].substr(flag.size() + 1);
  }
  return value;
}

std::map<std::string, std::string> variables_of(const std::string& text) {
  std::map<std::string, std::string> variables;
  for (const std::string& word : words_of(text)) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) variables[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return variables;
}

// Any user can name any file to us: one that would be waited for (a pipe), or that has no end, is none.
std::optional<std::string> small_file(const std::string& path) {
  constexpr off_t kMost = off_t{1} << 20;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat seen {};
  if (::fstat(file.get(), &seen) != 0 || !S_ISREG(seen.st_mode) || seen.st_size > kMost) return std::nullopt;
  std::string text(static_cast<std::size_t>(seen.st_size), '\0');
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(size));
  return text;
}

// As the agent itself finds it where its command line does not say: by its environment, its file, its user.
std::string configured_state(const AgentProcess& process, const std::vector<std::string>& words) {
  const auto environment = read_file(process.proc + "/environ");
  if (!environment.ok()) return "";
  const auto variables = variables_of(*environment);
  const std::string named = flag_value(words, "--config");
  const std::string path = seen_from_here(process, named.empty() ? kUsualFile : named);
  std::optional<agent::ConfigurationFile> file;
  if (!named.empty() || is_there(path)) {
    auto text = small_file(path);
    if (!text) return "";
    file = agent::ConfigurationFile{path, std::move(*text)};
  }
  const auto configured =
      agent::configure(agent::default_configuration(process.owner == 0, variables, ""), file, variables, {});
  return configured.ok() ? configured->state : "";
}

std::optional<AgentProcess> agent_at(const std::string& proc) {
  struct stat seen {};
  if (::stat(proc.c_str(), &seen) != 0) return std::nullopt;
  const auto line = read_file(proc + "/cmdline");
  if (!line.ok()) return std::nullopt;  // it has ended meanwhile
  const std::vector<std::string> words = words_of(*line);
  if (words.empty() || fs::path(words.front()).filename() != kProgram) return std::nullopt;
  AgentProcess process{proc, seen.st_uid, flag_value(words, "--state")};
  if (process.state.empty()) process.state = configured_state(process, words);
  return process;
}

bool is_number(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

// In the order of their numbers. Who hides processes from this user (hidepid) hides agents, too.
std::vector<AgentProcess> agent_processes(const std::string& root) {
  std::vector<std::string> numbers;
  const fs::path all = fs::path(root) / "proc";
  std::error_code ignored;
  for (const fs::path& entry : entries_of(all, ignored)) {
    if (is_number(entry.filename())) numbers.push_back(entry.filename());
  }
  std::ranges::sort(numbers, {}, [](const std::string& number) { return std::pair(number.size(), number); });
  std::vector<AgentProcess> processes;
  for (const std::string& number : numbers) {
    if (auto process = agent_at(all / number)) processes.push_back(std::move(*process));
  }
  return processes;
}

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
    std::error_code failure;
    std::vector<fs::path> found = entries_of(parent, failure);
    std::ranges::sort(found);
    for (const fs::path& one : found) {
      if (one.filename().string().starts_with(begin)) add(one);
    }
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
    if (seen->st_uid == process.owner || is_there(directory / "agent.db")) collection.add(directory);
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
