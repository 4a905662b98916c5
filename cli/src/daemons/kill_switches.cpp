#include "daemons/kill_switches.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace trimtab::cli {

namespace {

constexpr const char* kFile = "kill-switch";

std::string reason(const std::string& action) {
  return action + ": " + std::strerror(errno);
}

// These return why it failed; empty = done.

std::string throw_switch(const std::string& file) {
  // Whatever has the name is a switch that is thrown, a link too; nothing is written through one.
  const int made = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (made < 0) return errno == EEXIST ? "" : reason("cannot be made");
  ::close(made);
  return "";
}

std::string release_switch(const std::string& file) {
  std::error_code failure;
  std::filesystem::remove(file, failure);
  return failure ? "cannot be removed: " + failure.message() : "";
}

std::string obey(SwitchOrder order, const std::string& file) {
  if (order == SwitchOrder::kThrow) return throw_switch(file);
  if (order == SwitchOrder::kRelease) return release_switch(file);
  return "";
}

std::string look(const std::string& file, std::optional<bool>& thrown) {
  struct stat seen {};
  if (::lstat(file.c_str(), &seen) == 0) {
    thrown = true;
  } else if (errno == ENOENT) {
    thrown = false;
  } else {
    return reason("cannot be looked at");
  }
  return "";
}

KillSwitch order_one(SwitchOrder order, const AgentState& state, uid_t caller) {
  KillSwitch one{state.directory + "/" + kFile, std::nullopt};
  std::string why = state.unreachable;
  if (why.empty()) why = obey(order, one.file);
  if (why.empty()) why = look(one.file, one.thrown);
  if (why.empty()) return one;
  one.left_alone = caller != 0 && caller != state.owner;
  one.why = one.left_alone ? "it belongs to " + user_name(state.owner) + ": " + why : why;
  return one;
}

std::string list_of(const std::vector<KillSwitch>& switches) {
  std::string text;
  for (const KillSwitch& one : switches) text += (text.empty() ? "" : "; ") + one.file + ": " + one.why;
  return text;
}

}  // namespace

std::vector<KillSwitch> order_switches(SwitchOrder order, const std::vector<AgentState>& states, uid_t caller) {
  std::vector<KillSwitch> switches;
  for (const AgentState& state : states) switches.push_back(order_one(order, state, caller));
  return switches;
}

Status order_outcome(const std::vector<KillSwitch>& switches) {
  std::vector<KillSwitch> failed;
  std::ranges::copy_if(switches, std::back_inserter(failed),
                       [](const KillSwitch& one) { return !one.thrown && !one.left_alone; });
  if (!failed.empty()) {
    return unavailable("not every kill switch was reached, and ranks there may still change their plans: " +
                       list_of(failed) + ". Mend that, or name the agent's state by --agent-state DIR");
  }
  const bool none = std::ranges::none_of(switches, [](const KillSwitch& one) { return one.thrown.has_value(); });
  if (!none) return {};
  return unavailable("no kill switch could be reached: " + list_of(switches) +
                     ". Ask as root or as their user, or name another agent's state by --agent-state DIR");
}

}  // namespace trimtab::cli
