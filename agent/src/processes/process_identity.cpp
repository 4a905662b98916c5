#include "processes/process_identity.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace trimtab::agent {

namespace {

constexpr int kMaxGenerations = 64;
constexpr int kFieldsBeforeStart = 16;  // between the group and the start time, see proc(5)

// Of /proc's entries only processes have such a name.
std::optional<pid_t> numeric_name(const std::string& name) {
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return pid;
}

template <typename Wanted>
std::vector<pid_t> processes(const Wanted& wanted) {
  std::vector<pid_t> found;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry("/proc", failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const auto pid = numeric_name(entry->path().filename().native());
    const auto stat = pid ? process_stat(*pid) : std::nullopt;
    if (stat && wanted(*pid, *stat)) found.push_back(*pid);
  }
  return found;
}

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  const auto name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  std::istringstream fields{std::string(text.substr(name_end + 1))};
  ProcessStat stat;
  fields >> stat.state >> stat.parent >> stat.group;
  std::string skipped;
  for (int i = 0; i < kFieldsBeforeStart; ++i) fields >> skipped;
  fields >> stat.start_time;
  if (!fields) return std::nullopt;
  return stat;
}

std::optional<ProcessStat> process_stat(pid_t pid) {
  if (pid <= 0) return std::nullopt;
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text, '\0');
  return parse_process_stat(text);
}

std::string process_name(pid_t pid) {
  if (pid > 0) return "process " + std::to_string(pid);
  return "a process that this agent cannot see (its PID namespace is beside the agent's)";
}

bool is_alive(pid_t pid, std::uint64_t start_time) {
  const auto stat = process_stat(pid);
  return stat && stat->start_time == start_time && !stat->ended();
}

bool belongs_to(pid_t pid, pid_t ancestor) {
  for (int generation = 0; generation < kMaxGenerations && pid > 1; ++generation) {
    if (pid == ancestor) return true;
    const auto stat = process_stat(pid);
    if (!stat) return false;
    if (stat->group == ancestor) return true;
    pid = stat->parent;
  }
  return false;
}

std::vector<pid_t> group_members(pid_t leader) {
  return processes([leader](pid_t pid, const ProcessStat& stat) { return stat.group == leader && pid != leader; });
}

std::vector<pid_t> descendants_apart(pid_t leader) {
  return processes(
      [leader](pid_t pid, const ProcessStat& stat) { return stat.group != leader && belongs_to(pid, leader); });
}

}  // namespace trimtab::agent
