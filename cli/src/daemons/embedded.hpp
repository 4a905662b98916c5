#pragma once

// The embedded default: a coordinator and agents on this machine as background daemons, their state under one
// directory. Blocking; polls with deadlines.

#include <functional>
#include <optional>

#include "base/units.hpp"
#include "daemons/up_state.hpp"
#include "jobs/coordinator_client.hpp"

namespace trimtab::cli {

// The part of this node where several nodes are up together, under TLS (run/shared_folder.hpp).
struct SharedUp {
  std::string node;                      // what its agent is called
  net::CredentialFiles agent_tls;        // of a node
  Address coordinator;                   // how the agent and this user's commands ask it; port 0 = it is started here
  net::CredentialFiles coordinator_tls;  // where it is started here
  std::string tokens;                    // likewise: the file of hashes
};

struct UpOptions {
  std::string state;          // directory, absolute
  std::string programs;       // where trimtab-coordinator and trimtab-agent are
  std::uint16_t port = 7420;  // 0 = any free one
  std::uint32_t agents = 1;
  std::uint32_t devices = 1;  // per agent
  Bytes memory = 0;           // per device; 0 = this machine's, shared by all devices
  Nanoseconds deadline = std::chrono::seconds(30);
  bool owned = false;  // this process means to bring it down at its end
  std::optional<SharedUp> shared = {};
};

struct UpOutcome {
  UpState state;
  bool was_up = false;                 // nothing was started, but for:
  std::vector<std::string> restarted;  // what had died beside others that live, in words
  std::vector<std::string> left_over;  // processes of an `up` that had crashed, ended first
};

// Returns when every agent is a member. What is up already is taken as it is, and what has died of it is started again
// as it was, so that a job under a killed daemon goes on: `up` makes it its own, so that it stays;
// an owned use fails while another process owns it, as that one would pull it away. On failure everything that was
// started is ended again, and the error has the end of the guilty log. Two at the same time on one state directory: the
// second waits for the first.
[[nodiscard]] Result<UpOutcome> bring_up(const UpOptions& options, const Clock& clock);

// bring_down() by the owner alone: nothing happens where somebody else has taken it over by `up`.
[[nodiscard]] Status release(const std::string& state_directory, const Clock& clock);

// The same where nobody needs them: asked once, while no other command can begin to. False = somebody does, or they are
// no longer ours.
[[nodiscard]] Result<bool> release_unused(const std::string& state_directory, const Clock& clock,
                                          const std::function<bool()>& is_used);

// Nobody owns them any more: they stay up until bring_down(). Nothing happens where somebody else owns them.
[[nodiscard]] Status disown(const std::string& state_directory);

struct DownOutcome {
  std::vector<std::string> jobs;     // that were ended first, in words; whoever hands one in again begins it anew
  std::vector<std::string> stopped;  // processes, in words; empty = nothing was up
  std::vector<std::string> left_alone = {};  // that up.json names, and that are no daemons of this user's
};

// The jobs first (ended_jobs.hpp). Then SIGTERM, and SIGKILL to who does not end in time; the agents first, so that
// they end their ranks. An error where up.json cannot be read.
[[nodiscard]] Result<DownOutcome> bring_down(const std::string& state_directory, const Clock& clock);

// What is up there: the file exists and its coordinator is alive.
[[nodiscard]] std::optional<UpState> running_state(const std::string& state_directory);
// What the file says, whether or not any of it is alive.
[[nodiscard]] std::optional<UpState> recorded_state(const std::string& state_directory);
// All of it is alive, and so is its owner where it has one: it will not go of itself while it is used.
[[nodiscard]] bool is_usable(const UpState& state);
// This machine, as up.json names it.
[[nodiscard]] std::string host_name();

// The embedded coordinator, with its token.
[[nodiscard]] Address embedded_address(const std::string& state_directory, const UpState& state);
// In the state directory, or, where that is too long for a Unix socket's address, in /tmp.
[[nodiscard]] std::string agent_socket(const std::string& state_directory, std::uint32_t index);

}  // namespace trimtab::cli
