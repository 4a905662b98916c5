#pragma once

// Who needs the daemons of a state directory: a file for each `trimtab run`, with the command that it started. What is
// read of one whose processes have ended is nothing, so a run that was killed needs no cleaning up, and one whose
// command runs on still counts.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "daemons/process.hpp"

namespace trimtab::cli {

struct DaemonUser {
  ProcessIdentity run;
  ProcessIdentity command;  // pid 0 = not started yet
  std::string job;
  std::string step;  // of the launch that it is part of; empty = it is alone
};

[[nodiscard]] std::string to_json(const DaemonUser& user);
[[nodiscard]] Result<DaemonUser> parse_daemon_user(std::string_view json, std::string_view source);

// REQUIRES, of all below: the caller holds the state's lock, but for what changes a user of its own.
[[nodiscard]] Status write_user(const std::string& state_directory, const DaemonUser& user);
void remove_user(const std::string& state_directory, const ProcessIdentity& run);
// Those that live; removes what others have left.
[[nodiscard]] std::vector<DaemonUser> living_users(const std::string& state_directory);
// Whether there are any. Also where their folder is away or another's: somebody of the state directory's group has
// moved it, and nobody can tell.
[[nodiscard]] bool may_have_users(const std::string& state_directory);

}  // namespace trimtab::cli
