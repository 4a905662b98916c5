#include "daemons/agent_processes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

#include "agent/configuration.hpp"
#include "files.hpp"

namespace trimtab::cli {

namespace {

namespace fs = std::filesystem;

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
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  struct stat seen {};
  const bool is_small = ::fstat(file, &seen) == 0 && S_ISREG(seen.st_mode) && seen.st_size <= kMost;
  std::string text(is_small ? static_cast<std::size_t>(seen.st_size) : 0, '\0');
  const ssize_t size = is_small ? ::read(file, text.data(), text.size()) : -1;
  ::close(file);
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
  std::error_code failure;
  if (!named.empty() || fs::exists(path, failure)) {
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

}  // namespace

std::vector<AgentProcess> agent_processes(const std::string& root) {
  std::vector<std::string> numbers;
  const fs::path all = fs::path(root) / "proc";
  std::error_code failure;
  for (auto entry = fs::directory_iterator(all, failure); !failure && entry != fs::directory_iterator();
       entry.increment(failure)) {
    if (is_number(entry->path().filename())) numbers.push_back(entry->path().filename());
  }
  std::ranges::sort(numbers, {}, [](const std::string& number) { return std::pair(number.size(), number); });
  std::vector<AgentProcess> processes;
  for (const std::string& number : numbers) {
    if (auto process = agent_at(all / number)) processes.push_back(std::move(*process));
  }
  return processes;
}

std::string seen_from_here(const AgentProcess& process, const std::string& path) {
  const fs::path named(path);
  const fs::path proc(process.proc);
  return named.is_absolute() ? proc / "root" / named.relative_path() : proc / "cwd" / named;
}

}  // namespace trimtab::cli
