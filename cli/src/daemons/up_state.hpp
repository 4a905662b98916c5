#pragma once

// up.json: which daemons `trimtab up` has started, so that others find them and `down` stops them and nothing else.
// Plain values; parsing is pure.

#include <optional>

#include "daemons/process.hpp"
#include "jobs/coordinator_client.hpp"

namespace trimtab::cli {

struct UpProcess {
  std::string name;  // "coordinator", "agent n0"
  ProcessIdentity identity;
  std::string log;
  std::vector<std::string> command;  // what starts it again; empty = an older release recorded it
};

struct UpState {
  std::uint16_t port = 0;
  std::int32_t devices = 0;          // of all agents
  ProcessIdentity owner;             // the tune or profile that brings it down at its end; pid 0 = up until `down`
  std::vector<UpProcess> processes;  // the coordinator first, where it is one of them
  std::string host = {};             // where they run; empty = an older release recorded it
  // Of several nodes together: how their coordinator is asked. Nothing = on this machine, by the token of `up`.
  std::optional<Address> shared = {};
};

[[nodiscard]] std::string to_json(const UpState& state);
[[nodiscard]] Result<UpState> parse_up_state(std::string_view json, std::string_view source);

// The state directory: `flag` if given, else $TRIMTAB_STATE, else $XDG_STATE_HOME/trimtab, else ~/.local/state/trimtab.
// An error where none of them is set: nothing can be up, and nothing can be brought up.
[[nodiscard]] Result<std::string> state_directory(const std::string& flag);
[[nodiscard]] std::string up_file(const std::string& state_directory);

}  // namespace trimtab::cli
